package program

import "strings"

// Operator is what an operator of PyTorch does, as flags.
type Operator uint32

const (
	OpHalf          Operator = 1 << iota // autocast: its result has 16 bits, and so have copies of its operands
	OpFloat                              // autocast: its result has 32 bits
	OpSavesOwn                           // it saves its result for the backward pass, not its operand
	OpWeight                             // its second operand may be a weight
	OpProduct                            // makes the gradient of a weight, and that of its input
	OpLinear                             // a module Linear runs it
	OpConv                               // a convolution
	OpRecurrent                          // runs over a sequence
	OpOverTime                           // a whole recurrent layer: many products inside
	OpCompares                           // its result is a mask
	OpPerToken                           // its result grows with the length of sequences, not with its square
	OpNorm                               // a normalization, of either direction
	OpSoftmax                            // a softmax, of either direction
	OpLogSoftmax                         // a softmax of a loss, of either direction
	OpAttention                          // all of attention
	OpEmbedding                          // looks up tokens
	OpCast                               // changes how elements are stored
	OpOfActivations                      // a product of two activations
	OpElements                           // computes each element by itself, or casts or moves it
	OpStores                             // copies its operand or makes a tensor: it saves nothing for the backward pass
)

// operators are the known operators, separated by spaces. Autocast: aten/src/ATen/autocast_mode.h.
var operators = []struct {
	names string
	does  Operator
}{
	{"linear", OpHalf | OpWeight | OpLinear | OpPerToken},
	{"mm addmm", OpHalf | OpWeight | OpLinear | OpProduct},
	{"matmul", OpHalf | OpLinear | OpOfActivations},
	{"bmm baddbmm", OpHalf | OpProduct | OpOfActivations},
	{"einsum", OpHalf | OpOfActivations},
	{"mv addbmm scaled_dot_product_attention _thnn_fused_lstm_cell", OpHalf},
	{"lstm_cell gru_cell", OpHalf | OpRecurrent},
	{"rnn_tanh_cell rnn_relu_cell", OpRecurrent},
	{"convolution_backward", OpProduct},
	{"softmax log_softmax exp", OpFloat | OpSavesOwn},
	{"group_norm sum prod cumsum cumprod norm linalg_vector_norm dist cdist cosine_similarity logsumexp softplus arange", OpFloat},
	{"log log10 log2 log1p expm1 pow rsqrt reciprocal acos asin cosh sinh tan", OpFloat},
	{"mse_loss l1_loss smooth_l1_loss huber_loss nll_loss kl_div binary_cross_entropy_with_logits triplet_margin_loss", OpFloat},
	{"embedding layer_norm native_layer_norm", OpFloat | OpPerToken},
	{"relu", OpSavesOwn | OpPerToken},
	{"tanh sigmoid", OpSavesOwn},
	{"gelu silu", OpPerToken},
	{"lstm gru rnn_tanh rnn_relu", OpOverTime | OpRecurrent},
	{"eq ne lt le gt ge logical_not bitwise_not", OpCompares},
	{"to _to_copy copy_", OpCast | OpElements | OpStores},
	{"dequantize", OpCast | OpElements},
	{"clone", OpElements | OpStores},
	{"empty empty_like zeros zeros_like ones ones_like full full_like rand rand_like randn randn_like randint", OpStores},
	{"contiguous mul div add sub rsub neg abs round clamp clamp_min stack cat index index_select where bitwise_and bitwise_right_shift __rshift__ __and__", OpElements},
}

var families = []struct {
	part string
	does Operator
}{
	{"conv", OpConv}, {"norm", OpNorm}, {"softmax", OpSoftmax}, {"log_softmax", OpLogSoftmax}, {"attention", OpAttention}, {"embedding", OpEmbedding},
	{"upsample", OpFloat},
}

var operatorOf = func() map[string]Operator {
	all := map[string]Operator{}
	for _, row := range operators {
		for _, name := range strings.Fields(row.names) {
			all[name] = row.does
		}
	}
	return all
}()

// OperatorOf returns what an operator does: "aten::mm" or "mm".
func OperatorOf(name string) Operator {
	name = strings.TrimPrefix(name, "aten::")
	does := operatorOf[name]
	for _, family := range families {
		if strings.Contains(name, family.part) {
			does |= family.does
		}
	}
	if strings.HasPrefix(name, "conv") && does&OpProduct == 0 {
		does |= OpHalf | OpWeight
	}
	return does
}

// Is reports whether an operator does any of what flags say.
func (o Operator) Is(flags Operator) bool { return o&flags != 0 }
