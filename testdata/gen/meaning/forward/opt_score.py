import mt, torch
from transformers import OPTConfig, OPTForCausalLM
@torch.no_grad()
def main():
    m = mt.model(OPTForCausalLM(OPTConfig(vocab_size=14000, hidden_size=448, ffn_dim=1792, num_hidden_layers=6, num_attention_heads=7, word_embed_proj_dim=448, pad_token_id=1)).half().cuda().eval())
    for i in range(4):
        with mt.step(i):
            with mt.phase("other", "data"): x = mt.T("input", torch.randint(3, 14000, (4 + i, 90)).cuda())
            y = m(input_ids=x).logits.float().log_softmax(-1).mean().cpu()
    mt.finish()
main()
