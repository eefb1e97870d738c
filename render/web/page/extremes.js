// The lowest and the highest number of any range of a long list. The extremes of blocks of
// numbers are computed once, for speed.

const block = 128;

export class Extremes {
  constructor(values) {
    this.values = values;
    const n = Math.ceil(values.length / block);
    this.low = new Uint32Array(n); // of each block: index of its lowest number
    this.high = new Uint32Array(n);
    for (let b = 0; b < n; b++) {
      let low = b * block, high = low;
      for (let i = low; i < Math.min(values.length, (b + 1) * block); i++) {
        if (values[i] < values[low]) low = i;
        if (values[i] > values[high]) high = i;
      }
      this.low[b] = low;
      this.high[b] = high;
    }
  }

  // between returns the indexes of the lowest and of the highest number in [first, end), of
  // equal ones the first. The range must not be empty.
  between(first, end) {
    const {values} = this;
    let low = first, high = first;
    for (let i = first; i < end;) {
      if (i % block === 0 && i + block <= end) {
        const b = i / block;
        if (values[this.low[b]] < values[low]) low = this.low[b];
        if (values[this.high[b]] > values[high]) high = this.high[b];
        i += block;
      } else {
        if (values[i] < values[low]) low = i;
        if (values[i] > values[high]) high = i;
        i++;
      }
    }
    return {low, high};
  }

  // above writes the indexes below end of all numbers above a limit to out, and returns how many there are.
  above(limit, end, out) {
    const {values, high} = this;
    let n = 0;
    for (let i = 0; i < end; i++) {
      if (i % block === 0 && values[high[i / block]] <= limit) i += block - 1;
      else if (values[i] > limit) out[n++] = i;
    }
    return n;
  }
}
