"use strict";
// Runs exported networks: one sample, channels last, sums in double precision.
const Runtime = (() => {
  const COLUMNS = 4; // columns of a kernel that one pass of the product works on

  // ---- weights -------------------------------------------------------------

  function halfToFloat(half) {
    const exponent = (half >> 10) & 31, fraction = half & 1023;
    const sign = half & 0x8000 ? -1 : 1;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }

  let halves = null; // all of them: a table is faster than 65,536 powers for each kernel

  function halfTable() {
    if (!halves) halves = Float32Array.from({ length: 65536 }, (unused, i) => halfToFloat(i));
    return halves;
  }

  function fromBase64(text) {
    const characters = atob(text), bytes = new Uint8Array(characters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
    return bytes;
  }

  async function inflate(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // Undoes the sorting by bytes; see weight_store.py.
  function joinPlanes(bytes, start, count, width) {
    const joined = new Uint8Array(count * width);
    for (let b = 0; b < width; b++) {
      for (let i = 0, from = start + b * count; i < count; i++) joined[i * width + b] = bytes[from + i];
    }
    return joined.buffer;
  }

  async function unpack(packed) {
    const bytes = await inflate(fromBase64(packed.data)), table = halfTable();
    const sizes = packed.shapes.map((shape) => shape.reduce((a, b) => a * b, 1));
    const total = (half) => sizes.reduce((sum, size, i) => sum + (packed.half[i] === half ? size : 0), 0);
    const short = new Uint16Array(joinPlanes(bytes, 0, total(1), 2));
    const floats = new Float32Array(joinPlanes(bytes, 2 * total(1), total(0), 4));
    let atHalf = 0, atFloat = 0;
    return sizes.map((size, i) => {
      if (!packed.half[i]) return floats.slice(atFloat, atFloat += size);
      const array = new Float32Array(size);
      for (let k = 0; k < size; k++) array[k] = table[short[atHalf++]];
      return array;
    });
  }

  // ---- products ------------------------------------------------------------

  // A matrix (depth x columns) in stripes of four columns, filled up with zeros.
  function pack(matrix, depth, columns) {
    const stripes = Math.ceil(columns / COLUMNS);
    const packed = new Float32Array(stripes * depth * COLUMNS);
    for (let j = 0; j < columns; j++) {
      const base = Math.floor(j / COLUMNS) * depth * COLUMNS + (j % COLUMNS);
      for (let k = 0; k < depth; k++) packed[base + k * COLUMNS] = matrix[k * columns + j];
    }
    return { packed, depth, columns };
  }

  // out[r, :] = rows[r, :] @ kernel for `count` rows; two rows and four columns at once.
  function multiply(rows, count, kernel, out) {
    const { packed, depth, columns } = kernel;
    for (let j = 0, base = 0; j < columns; j += COLUMNS, base += depth * COLUMNS) {
      const width = Math.min(COLUMNS, columns - j);
      for (let r = 0; r < count; r += 2) {
        const first = r * depth, second = r + 1 < count ? first + depth : first;
        let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
        for (let k = 0, p = base; k < depth; k++, p += COLUMNS) {
          const a = rows[first + k], b = rows[second + k];
          const w0 = packed[p], w1 = packed[p + 1], w2 = packed[p + 2], w3 = packed[p + 3];
          a0 += a * w0; a1 += a * w1; a2 += a * w2; a3 += a * w3;
          b0 += b * w0; b1 += b * w1; b2 += b * w2; b3 += b * w3;
        }
        store(out, r * columns + j, width, a0, a1, a2, a3);
        if (r + 1 < count) store(out, (r + 1) * columns + j, width, b0, b1, b2, b3);
      }
    }
  }

  function store(out, at, width, v0, v1, v2, v3) {
    out[at] = v0;
    if (width > 1) out[at + 1] = v1;
    if (width > 2) out[at + 2] = v2;
    if (width > 3) out[at + 3] = v3;
  }

  function addBias(out, bias) {
    if (!bias) return;
    const channels = bias.length;
    for (let i = 0; i < out.length; i += channels) {
      for (let c = 0; c < channels; c++) out[i + c] += bias[c];
    }
  }

  // Copies, for every position of a (rows x columns) grid, the pixels under the taps
  // [dy, dx] into one row of `patches`; pixels outside are zero.
  function gather(x, shape, grid, strides, taps, patches) {
    const [height, width, channels] = shape;
    const depth = taps.length * channels;
    patches.fill(0);
    for (let i = 0, at = 0; i < grid[0]; i++) {
      for (let j = 0; j < grid[1]; j++, at += depth) {
        for (let t = 0; t < taps.length; t++) {
          const y = i * strides[0] + taps[t][0], z = j * strides[1] + taps[t][1];
          if (y < 0 || z < 0 || y >= height || z >= width) continue;
          const from = (y * width + z) * channels, to = at + t * channels;
          for (let c = 0; c < channels; c++) patches[to + c] = x[from + c];
        }
      }
    }
  }

  // ---- steps: each maker returns a function of the input arrays --------------

  const size = (shape) => shape.reduce((a, b) => a * b, 1);

  function dense(step, shapes, weights) {
    const kernel = pack(weights.kernel, shapes[0][0], step.shape[0]);
    const out = new Float32Array(step.shape[0]);
    return (x) => { multiply(x, 1, kernel, out); addBias(out, weights.bias); return out; };
  }

  function conv(step, shapes, weights) {
    const [channels, filters] = [shapes[0][2], step.shape[2]];
    const taps = [];
    for (let y = 0; y < step.size[0]; y++) {
      for (let x = 0; x < step.size[1]; x++) taps.push([y - step.before[0], x - step.before[1]]);
    }
    const depth = taps.length * channels, count = step.shape[0] * step.shape[1];
    const kernel = pack(weights.kernel, depth, filters);
    const out = new Float32Array(size(step.shape));
    const plain = taps.length === 1 && step.strides[0] === 1 && step.strides[1] === 1;
    const patches = plain ? null : new Float32Array(count * depth);
    return (x) => {
      if (!plain) gather(x, shapes[0], step.shape, step.strides, taps, patches);
      multiply(plain ? x : patches, count, kernel, out);
      addBias(out, weights.bias);
      return out;
    };
  }

  // Output pixels fall into strides x strides kinds; each is a convolution with the
  // taps that reach it. Kernel: (height, width, filters, channels), as Keras keeps it.
  function convTranspose(step, shapes, weights, source) {
    const [height, width, filters] = step.shape, channels = shapes[0][2];
    const kernelOf = source || weights.kernel;
    const kinds = [];
    for (let py = 0; py < step.strides[0]; py++) {
      for (let px = 0; px < step.strides[1]; px++) kinds.push(kindOf(py, px));
    }
    function kindOf(py, px) {
      const taps = [], cells = [];
      for (let ky = 0; ky < step.size[0]; ky++) {
        const dy = (py + step.before[0] - ky) / step.strides[0];
        if (!Number.isInteger(dy)) continue;
        for (let kx = 0; kx < step.size[1]; kx++) {
          const dx = (px + step.before[1] - kx) / step.strides[1];
          if (!Number.isInteger(dx)) continue;
          taps.push([dy, dx]);
          cells.push((ky * step.size[1] + kx) * filters * channels);
        }
      }
      const depth = taps.length * channels;
      const matrix = new Float32Array(depth * filters);
      cells.forEach((cell, t) => {
        for (let c = 0; c < channels; c++) {
          for (let f = 0; f < filters; f++) {
            matrix[(t * channels + c) * filters + f] = kernelOf[cell + f * channels + c];
          }
        }
      });
      const grid = [Math.ceil((height - py) / step.strides[0]), Math.ceil((width - px) / step.strides[1])];
      const count = grid[0] * grid[1];
      return {
        py, px, taps, grid, count, kernel: pack(matrix, depth, filters),
        patches: new Float32Array(count * depth), part: new Float32Array(count * filters),
      };
    }
    const out = new Float32Array(size(step.shape));
    return (x) => {
      for (const kind of kinds) {
        gather(x, shapes[0], kind.grid, [1, 1], kind.taps, kind.patches);
        multiply(kind.patches, kind.count, kind.kernel, kind.part);
        for (let i = 0, from = 0; i < kind.grid[0]; i++) {
          for (let j = 0; j < kind.grid[1]; j++, from += filters) {
            const to = ((i * step.strides[0] + kind.py) * width + j * step.strides[1] + kind.px) * filters;
            for (let f = 0; f < filters; f++) out[to + f] = kind.part[from + f];
          }
        }
      }
      addBias(out, weights.bias);
      return out;
    };
  }

  // Doubling and a 3x3 kernel are one transposed convolution whose 4x4 kernel is the
  // turned 3x3 one added at four places.
  function upsamplingConv(step, shapes, weights) {
    const channels = shapes[0][2], filters = step.shape[2];
    const summed = new Float32Array(16 * filters * channels);
    for (let y = 0; y < 3; y++) {
      for (let x = 0; x < 3; x++) {
        for (const [oy, ox] of [[0, 0], [0, 1], [1, 0], [1, 1]]) {
          const to = ((2 - y + oy) * 4 + 2 - x + ox) * filters * channels;
          const from = (y * 3 + x) * channels * filters;
          for (let c = 0; c < channels; c++) {
            for (let f = 0; f < filters; f++) {
              summed[to + f * channels + c] += weights.kernel[from + c * filters + f];
            }
          }
        }
      }
    }
    const wide = { ...step, size: [4, 4], strides: [2, 2], before: [1, 1] };
    return convTranspose(wide, shapes, weights, summed);
  }

  // y = (x - mean) * scale / deviation + shift, by channel over all positions.
  function normalize(x, channels, epsilon, scaleOf, shiftOf, out) {
    const positions = x.length / channels;
    for (let c = 0; c < channels; c++) {
      let mean = 0, variance = 0;
      for (let i = c; i < x.length; i += channels) mean += x[i];
      mean /= positions;
      for (let i = c; i < x.length; i += channels) variance += (x[i] - mean) ** 2;
      const gain = scaleOf(c) / Math.sqrt(variance / positions + epsilon), shift = shiftOf(c);
      for (let i = c; i < x.length; i += channels) out[i] = (x[i] - mean) * gain + shift;
    }
    return out;
  }

  function instanceNorm(step, shapes, weights) {
    const out = new Float32Array(size(step.shape)), channels = step.shape[step.shape.length - 1];
    const scale = (c) => (weights.gamma ? weights.gamma[c] : 1);
    const shift = (c) => (weights.beta ? weights.beta[c] : 0);
    return (x) => normalize(x, channels, step.epsilon, scale, shift, out);
  }

  function adain(step) {
    const out = new Float32Array(size(step.shape)), channels = step.shape[step.shape.length - 1];
    return (x, style) => normalize(
      x, channels, step.epsilon,
      (c) => style[c] + step.scale_offset, (c) => style[channels + c], out,
    );
  }

  function layerNorm(step, shapes, weights) {
    const out = new Float32Array(size(step.shape)), channels = step.shape[step.shape.length - 1];
    return (x) => {
      for (let i = 0; i < x.length; i += channels) {
        let mean = 0, variance = 0;
        for (let c = 0; c < channels; c++) mean += x[i + c];
        mean /= channels;
        for (let c = 0; c < channels; c++) variance += (x[i + c] - mean) ** 2;
        const gain = 1 / Math.sqrt(variance / channels + step.epsilon);
        for (let c = 0; c < channels; c++) {
          const y = (x[i + c] - mean) * gain * (weights.gamma ? weights.gamma[c] : 1);
          out[i + c] = y + (weights.beta ? weights.beta[c] : 0);
        }
      }
      return out;
    };
  }

  function batchNorm(step, shapes, weights) {
    const out = new Float32Array(size(step.shape)), channels = step.shape[step.shape.length - 1];
    const gain = new Float64Array(channels), shift = new Float64Array(channels);
    for (let c = 0; c < channels; c++) {
      gain[c] = (weights.gamma ? weights.gamma[c] : 1) / Math.sqrt(weights.variance[c] + step.epsilon);
      shift[c] = (weights.beta ? weights.beta[c] : 0) - weights.mean[c] * gain[c];
    }
    return (x) => {
      for (let i = 0; i < x.length; i++) out[i] = x[i] * gain[i % channels] + shift[i % channels];
      return out;
    };
  }

  // Error function to 1.2e-7 (a Chebyshev fit of the complementary one).
  function erf(x) {
    const t = 1 / (1 + 0.5 * Math.abs(x));
    const terms = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
      0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
    const sum = terms.reduceRight((total, term) => total * t + term, 0);
    const y = 1 - t * Math.exp(-x * x + sum);
    return x >= 0 ? y : -y;
  }

  const sigmoid = (v) => (v >= 0 ? 1 / (1 + Math.exp(-v)) : Math.exp(v) / (1 + Math.exp(v)));
  const ROOT = Math.sqrt(2 / Math.PI);
  const ACTIVATIONS = {
    relu: (v) => (v > 0 ? v : 0),
    tanh: Math.tanh,
    sigmoid,
    silu: (v) => v * sigmoid(v),
    softplus: (v) => Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v))),
    elu: (v) => (v > 0 ? v : Math.expm1(v)),
    gelu: (v) => 0.5 * v * (1 + erf(v / Math.SQRT2)),
    gelu_tanh: (v) => 0.5 * v * (1 + Math.tanh(ROOT * (v + 0.044715 * v * v * v))),
  };

  function each(step, f) {
    const out = new Float32Array(size(step.shape));
    return (x) => { for (let i = 0; i < x.length; i++) out[i] = f(x[i]); return out; };
  }

  function activation(step) {
    if (step.kind !== "leaky_relu") return each(step, ACTIVATIONS[step.kind]);
    const slope = step.slope, out = new Float32Array(size(step.shape));
    return (x) => {
      for (let i = 0; i < x.length; i++) { const v = x[i]; out[i] = v > 0 ? v : slope * v; }
      return out;
    };
  }

  function elementwise(f) {
    return (step) => {
      const out = new Float32Array(size(step.shape));
      return (...all) => {
        out.set(all[0]);
        for (const x of all.slice(1)) for (let i = 0; i < x.length; i++) out[i] = f(out[i], x[i]);
        return out;
      };
    };
  }

  function concatenate(step, shapes) {
    const out = new Float32Array(size(step.shape)), total = step.shape[step.shape.length - 1];
    return (...all) => {
      let start = 0;
      all.forEach((x, n) => {
        const channels = shapes[n][shapes[n].length - 1];
        for (let i = 0, to = start; i < x.length; i += channels, to += total) {
          for (let c = 0; c < channels; c++) out[to + c] = x[i + c];
        }
        start += channels;
      });
      return out;
    };
  }

  function slice(step, shapes) {
    const out = new Float32Array(size(step.shape));
    const channels = step.shape[step.shape.length - 1], total = shapes[0][shapes[0].length - 1];
    return (x) => {
      for (let i = 0, from = step.start; i < out.length; i += channels, from += total) {
        for (let c = 0; c < channels; c++) out[i + c] = x[from + c];
      }
      return out;
    };
  }

  // Copies or combines pixels: `visit(i, j, take)` calls take(y, x) for the sources of
  // the output pixel (i, j).
  function pixels(step, shapes, start, visit, combine) {
    const [height, width, channels] = shapes[0], [rows, columns] = step.shape;
    const out = new Float32Array(size(step.shape));
    return (x) => {
      out.fill(start);
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < columns; j++) {
          const to = (i * columns + j) * channels;
          visit(i, j, (y, z) => {
            if (y < 0 || z < 0 || y >= height || z >= width) return;
            const from = (y * width + z) * channels;
            for (let c = 0; c < channels; c++) out[to + c] = combine(out[to + c], x[from + c]);
          });
        }
      }
      return out;
    };
  }

  const take = (old, value) => value;

  function maxPool(step, shapes) {
    const visit = (i, j, at) => {
      for (let y = 0; y < step.size[0]; y++) {
        for (let x = 0; x < step.size[1]; x++) {
          at(i * step.strides[0] - step.before[0] + y, j * step.strides[1] - step.before[1] + x);
        }
      }
    };
    return pixels(step, shapes, -Infinity, visit, Math.max);
  }

  function upsample(step, shapes) {
    const [down, across] = step.factors;
    return pixels(step, shapes, 0, (i, j, at) => at(Math.floor(i / down), Math.floor(j / across)), take);
  }

  function zeroPad(step, shapes) {
    return pixels(step, shapes, 0, (i, j, at) => at(i - step.before[0], j - step.before[1]), take);
  }

  function globalAverage(step) {
    const out = new Float32Array(step.shape[0]), channels = step.shape[0];
    return (x) => {
      for (let c = 0; c < channels; c++) {
        let sum = 0;
        for (let i = c; i < x.length; i += channels) sum += x[i];
        out[c] = sum * channels / x.length;
      }
      return out;
    };
  }

  function spaceToDepth(step, shapes) {
    const [height, width, channels] = shapes[0], block = step.block;
    const out = new Float32Array(size(step.shape)), columns = step.shape[1];
    return (x) => {
      for (let y = 0; y < height; y++) {
        for (let z = 0; z < width; z++) {
          const cell = Math.floor(y / block) * columns + Math.floor(z / block);
          const to = ((cell * block + (y % block)) * block + (z % block)) * channels;
          const from = (y * width + z) * channels;
          for (let c = 0; c < channels; c++) out[to + c] = x[from + c];
        }
      }
      return out;
    };
  }

  function spatialBroadcast(step) {
    const [height, width, channels] = step.shape;
    const out = new Float32Array(size(step.shape));
    const along = (i, count) => (count > 1 ? -1 + 2 * i / (count - 1) : -1);
    return (x) => {
      for (let i = 0, at = 0; i < height; i++) {
        for (let j = 0; j < width; j++, at += channels) {
          out.set(x, at);
          out[at + channels - 2] = along(j, width);
          out[at + channels - 1] = along(i, height);
        }
      }
      return out;
    };
  }

  const MAKERS = {
    dense, conv, activation, adain, concatenate, slice, upsample,
    conv_transpose: convTranspose,
    upsampling_conv: upsamplingConv,
    instance_norm: instanceNorm,
    layer_norm: layerNorm,
    batch_norm: batchNorm,
    max_pool: maxPool,
    zero_pad: zeroPad,
    global_average: globalAverage,
    space_to_depth: spaceToDepth,
    spatial_broadcast: spatialBroadcast,
    constant: (step, shapes, weights) => () => weights.value,
    reshape: () => (x) => x,
    rescale: (step) => each(step, (v) => v * step.scale + step.offset),
    add: elementwise((a, b) => a + b),
    multiply: elementwise((a, b) => a * b),
  };

  // A function from the input array to the output array, which the next call reuses.
  // Steps that do not depend on the input are computed once, here.
  function compile(steps, weights) {
    const values = [], runs = [], varies = [];
    steps.forEach((step, n) => {
      if (step.op === "input") { varies[n] = true; return; }
      const own = {};
      for (const [name, index] of Object.entries(step.weights || {})) own[name] = weights[index];
      const run = MAKERS[step.op](step, step.inputs.map((i) => steps[i].shape), own);
      varies[n] = step.inputs.some((i) => varies[i]);
      if (varies[n]) runs.push([n, step.inputs, run]);
      else values[n] = run(...step.inputs.map((i) => values[i]));
    });
    return (input) => {
      values[0] = input;
      for (const [n, inputs, run] of runs) values[n] = run(...inputs.map((i) => values[i]));
      return values[steps.length - 1];
    };
  }

  // ---- latents ---------------------------------------------------------------

  function nearestOf(count, distance) {
    let best = 0, least = Infinity;
    for (let k = 0; k < count; k++) {
      const far = distance(k);
      if (far < least) { least = far; best = k; }
    }
    return best;
  }

  function roundHalfEven(v) {
    const low = Math.floor(v), rest = v - low;
    if (rest !== 0.5) return Math.round(v);
    return low % 2 === 0 ? low : low + 1;
  }

  // The latents of a model: codes and values of the encoder's numbers.
  class Latent {
    constructor(record, weights) {
      this.record = record;
      this.num = record.latents;
      this.size = record.size;
      this.table = record.table === undefined ? null : weights[record.table];
      this.isContinuous = record.kind === "continuous" || record.kind === "gaussian";
      this.isVector = record.kind === "vector";
      this.width = record.counts ? Math.max(...record.counts) : 0;
    }

    // Numbers of a latent's code, `size` of them.
    valueOf(j, code) {
      const start = this.isVector ? code * this.size : j * this.width + code;
      return this.table.subarray(start, start + this.size);
    }

    // Codes that a latent can have, in the order of their values.
    codesOf(j) {
      const active = this.record.active;
      const all = active ? [...active[j]] : [...Array(this.record.counts[j]).keys()];
      if (!this.isVector) all.sort((a, b) => this.valueOf(j, a)[0] - this.valueOf(j, b)[0]);
      return all;
    }

    codeOf(x, j) {
      const { kind, counts } = this.record, count = counts[j];
      if (kind === "grid") {
        // Each operation is rounded as Keras rounds it.
        const position = Math.fround(Math.fround(Math.fround(Math.tanh(x[j])) + 1) * ((count - 1) / 2));
        return roundHalfEven(position);
      }
      if (kind === "vector") return nearestOf(count, (k) => this.distance(x, j, k));
      if (kind === "argmax" || kind === "expected") {
        const active = this.record.active ? new Set(this.record.active[j]) : null;
        return nearestOf(count, (k) => (active && !active.has(k) ? Infinity : -x[j * count + k]));
      }
      return nearestOf(count, (k) => Math.abs(x[j] - this.valueOf(j, k)[0]));
    }

    distance(x, j, code) {
      const value = this.valueOf(j, code), start = j * this.size;
      let sum = 0;
      for (let d = 0; d < this.size; d++) {
        const gap = x[start + d] - value[d];
        sum += this.record.distance === "l1" ? Math.abs(gap) : gap * gap;
      }
      return sum;
    }

    expected(x, j) {
      const count = this.record.counts[j], temperature = this.record.temperature;
      const codes = this.codesOf(j);
      const most = Math.max(...codes.map((k) => x[j * count + k]));
      let total = 0, sum = 0;
      for (const k of codes) {
        const share = Math.exp((x[j * count + k] - most) / temperature);
        total += share;
        sum += share * this.valueOf(j, k)[0];
      }
      return sum / total;
    }

    // { codes, values } of what the encoder gives; continuous latents have no codes.
    read(x) {
      const values = new Float32Array(this.num * this.size);
      if (this.isContinuous) {
        values.set(x.subarray(0, this.num));
        return { codes: null, values };
      }
      const codes = [];
      for (let j = 0; j < this.num; j++) {
        codes.push(this.codeOf(x, j));
        if (this.record.kind === "expected") values[j] = this.expected(x, j);
        else values.set(this.valueOf(j, codes[j]), j * this.size);
      }
      return { codes, values };
    }
  }

  async function load(model) {
    const weights = await unpack(model.weights);
    const encode = compile(model.encoder, weights), decode = compile(model.decoder, weights);
    const latent = new Latent(model.latent, weights);
    const finish = model.output === "sigmoid" ? sigmoid : (v) => Math.min(Math.max(v, 0), 1);
    return {
      image: model.image,
      latent,
      encode: (pixels) => latent.read(encode(pixels)),
      decode: (values) => Float32Array.from(decode(values), finish),
    };
  }

  return { load };
})();
if (typeof module !== "undefined") module.exports = Runtime;
