// A graph of ONNX's operators (tfjs.py), each by TensorFlow.js on WebGPU. Images lie as tfjs has them, channels last,
// from a convolution to where the graph wants another shape of them.

/** Both files of tfjs put what they have into the global `tf`. */
async function tensorflow() {
  for (const name of ["tf-core", "tf-backend-webgpu"]) {
    const script = document.createElement("script");
    script.src = `./tfjs/${name}.min.js`;
    const loaded = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
    document.head.append(script);
    await loaded;
  }
  const { tf } = globalThis;
  if (!(await tf.setBackend("webgpu"))) throw new Error("tfjs has no WebGPU here");
  await tf.ready();
  return tf;
}

export async function start(folder, _, inputs, result) {
  const found = await fetch(`${folder}/tfjs.json`);
  if (!found.ok) throw new Error("tfjs has no float16");
  const { nodes, weights } = await found.json();
  const bytes = await (await fetch(`${folder}/tfjs.bin`)).arrayBuffer();
  const tf = await tensorflow();
  const arrays = { float32: Float32Array, int32: Int32Array };
  const held = {};
  const numbers = {};
  for (const [name, [dtype, shape, at]] of Object.entries(weights)) {
    numbers[name] = new arrays[dtype](bytes, at, shape.reduce((a, b) => a * b, 1));
    held[name] = { tensor: tf.tensor(numbers[name], shape, dtype), last: false };
  }
  const given = Object.entries(inputs).map(([name, { dtype, shape, data }]) => {
    const whole = dtype === "int64";
    return [name, whole ? Int32Array.from(data, Number) : data, shape, whole ? "int32" : dtype];
  });
  const operators = operatorsOf(tf, numbers);
  return async () => {
    const output = tf.tidy(() => {
      const values = { ...held };
      for (const [name, data, shape, dtype] of given) values[name] = { tensor: tf.tensor(data, shape, dtype), last: false };
      for (const [kind, from, [to], attributes] of nodes)
        values[to] = operators[kind](from.map((name) => values[name]), attributes, from);
      return plain(tf, values[result]);
    });
    const data = await output.data();
    output.dispose();
    return data;
  };
}

/** As ONNX has it: channels second. */
function plain(tf, { tensor, last }) {
  return last ? tf.transpose(tensor, [0, 3, 1, 2]) : tensor;
}

/** By ONNX's name, of values, attributes and names. `numbers`: of weights, by name. */
function operatorsOf(tf, numbers) {
  const made = (tensor, last = false) => ({ tensor, last });
  const of = (value) => plain(tf, value);
  const ints = (name) => Array.from(numbers[name]);

  /** Of two values; where one is an image with its channels last, the other is one, or as many numbers as channels. */
  const both = (operator) => ([left, right]) => {
    const last = left.last || right.last;
    const [a, b] = [left, right].map((value) => {
      if (!last || value.last) return value.tensor;
      const shape = [1, 1, 1, 1, ...value.tensor.shape].slice(-4);
      const [count, channels, high, wide] = shape;
      return high * wide * count === 1
        ? tf.reshape(value.tensor, [1, 1, 1, channels])
        : tf.transpose(tf.reshape(value.tensor, shape), [0, 2, 3, 1]);
    });
    return made(operator(a, b), last);
  };
  const each = (operator) => ([{ tensor, last }]) => made(operator(tensor), last);
  const pairs = ([top, left, bottom, right]) => [[0, 0], [top, bottom], [left, right], [0, 0]];
  const pooled = ([value], { kernel_shape: size, strides, pads = [0, 0, 0, 0] }) =>
    made(tf.avgPool(lastOf(value), size, strides, pairs(pads)), true);
  const lastOf = ({ tensor, last }) => (last ? tensor : tf.transpose(tensor, [0, 2, 3, 1]));
  const normal = (x, axis, epsilon) => {
    const { mean, variance } = tf.moments(x, axis, true);
    return tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, epsilon)));
  };

  return {
    Add: both(tf.add),
    Sub: both(tf.sub),
    Mul: both(tf.mul),
    Div: both(tf.div),
    Sigmoid: each(tf.sigmoid),
    Erf: each(tf.erf),
    Gather: ([table, places], { axis = 0 }) => made(tf.gather(of(table), of(places), axis)),
    MatMul: ([a, b]) => made(tf.matMul(of(a), of(b))),
    Gemm: ([a, b, bias], { transA = 0, transB = 0 }) =>
      made(tf.fused.matMul({ a: of(a), b: of(b), transposeA: !!transA, transposeB: !!transB, bias: bias && of(bias) })),
    Reshape: ([x], _, [, to]) => {
      const tensor = of(x);
      return made(tf.reshape(tensor, ints(to).map((size, at) => size || tensor.shape[at])));
    },
    Unsqueeze: ([x], _, [, axes]) => made(ints(axes).sort((a, b) => a - b).reduce((y, axis) => tf.expandDims(y, axis), of(x))),
    Flatten: ([x]) => {
      const tensor = of(x);
      return made(tf.reshape(tensor, [tensor.shape[0], -1]));
    },
    Transpose: ([x], { perm }) => made(tf.transpose(of(x), perm)),
    Slice: ([x], _, [, starts, ends, axes]) => {
      const tensor = of(x);
      const [begin, size] = [tensor.shape.map(() => 0), [...tensor.shape]];
      for (const [at, axis] of ints(axes).entries()) {
        const whole = tensor.shape[axis < 0 ? axis + tensor.rank : axis];
        const [from, to] = [ints(starts)[at], ints(ends)[at]].map((end) => Math.min(end < 0 ? end + whole : end, whole));
        begin[axis < 0 ? axis + tensor.rank : axis] = from;
        size[axis < 0 ? axis + tensor.rank : axis] = to - from;
      }
      return made(tf.slice(tensor, begin, size));
    },
    Softmax: ([x], { axis = -1 }) => made(tf.softmax(of(x), axis)),
    LayerNormalization: ([x, scale, bias], { axis = -1, epsilon }) =>
      made(tf.add(tf.mul(normal(of(x), axis, epsilon), of(scale)), of(bias))),
    InstanceNormalization: ([x, scale, bias], { epsilon }) => {
      const tensor = of(x);
      const over = tensor.shape.map((_, axis) => axis).slice(2);
      const row = tensor.shape.map((size, axis) => (axis === 1 ? size : 1));
      return made(tf.add(tf.mul(normal(tensor, over, epsilon), tf.reshape(of(scale), row)), tf.reshape(of(bias), row)));
    },
    ReduceMean: ([x], { axes, keepdims = 1 }) => made(tf.mean(of(x), axes, !!keepdims)),
    ReduceL2: ([x], { axes, keepdims = 1 }) => made(tf.sqrt(tf.sum(tf.square(of(x)), axes, !!keepdims))),
    GlobalAveragePool: ([x]) => made(tf.mean(lastOf(x), [1, 2], true), true),
    AveragePool: pooled,
    Conv: ([x, weight, bias], { group = 1, strides, pads = [0, 0, 0, 0], dilations }) => {
      const tensor = lastOf(x);
      const pad = pads.every((size) => size === pads[0]) ? pads[0] : pairs(pads);
      const convolution = group === 1 ? tf.fused.conv2d : tf.fused.depthwiseConv2d;
      return made(
        convolution({ x: tensor, filter: weight.tensor, strides, pad, dataFormat: "NHWC", dilations, bias: bias && bias.tensor }),
        true,
      );
    },
  };
}
