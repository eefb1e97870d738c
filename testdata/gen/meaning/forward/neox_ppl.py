import mt, torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
@torch.no_grad()
def main():
    m = mt.model(GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=11000, hidden_size=400, intermediate_size=1600, num_hidden_layers=5, num_attention_heads=8)).cuda().eval())
    for i in range(4):
        with mt.step(i):
            with mt.phase("other", "data"): x = mt.T("input", torch.randint(3, 11000, (3, 120 - 10 * i)).cuda())
            y = m(input_ids=x, labels=x).loss.item()
    mt.finish()
main()
