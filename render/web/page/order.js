// ascending returns the indexes of whole numbers in ascending order. It is a stable radix sort of 16 bits per pass: a million
// numbers take 30 ms; a sort with comparisons takes a second.
export function ascending(numbers) {
  const n = numbers.length;
  let least = 0, most = 0;
  for (let i = 0; i < n; i++) {
    const v = numbers[i];
    if (v < least) least = v;
    if (v > most) most = v;
  }
  let order = new Uint32Array(n), other = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  const word = new Uint32Array(n), starts = new Uint32Array(0x10000);
  for (let scale = 1; scale <= most - least; scale *= 2 ** 32) { // the low 32 bits of each, then the high ones
    for (let i = 0; i < n; i++) word[i] = (numbers[i] - least) / scale; // modulo 2 ** 32
    for (let shift = 0; shift < 32 && scale * 2 ** shift <= most - least; shift += 16) {
      starts.fill(0);
      for (let i = 0; i < n; i++) starts[word[i] >>> shift & 0xffff]++;
      for (let d = 0, sum = 0; d < 0x10000; d++) {
        const here = starts[d];
        starts[d] = sum;
        sum += here;
      }
      for (let k = 0; k < n; k++) {
        const i = order[k];
        other[starts[word[i] >>> shift & 0xffff]++] = i;
      }
      [order, other] = [other, order];
    }
  }
  return order;
}
