import mt, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
@torch.no_grad()
def main():
    m = mt.model(Qwen2ForCausalLM(Qwen2Config(vocab_size=13000, hidden_size=480, intermediate_size=1300, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=2)).bfloat16().cuda().eval())
    for i in range(4):
        with mt.step(i):
            with mt.phase("other", "data"): x = mt.T("input", torch.randint(3, 13000, (2, 200 + i)).cuda())
            y = m(input_ids=x, use_cache=True).logits[:, -1].argmax(-1).cpu()
    mt.finish()
main()
