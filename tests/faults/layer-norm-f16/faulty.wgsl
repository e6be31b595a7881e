enable f16;

@group(0) @binding(0) var<storage, read> x : array<f16>;
@group(0) @binding(1) var<storage, read> weight : array<f16>;
@group(0) @binding(2) var<storage, read> bias : array<f16>;
@group(0) @binding(3) var<storage, read_write> out : array<f16>;

// Every edge of the decomposed LayerNorm is float16: ReduceMean, Sub, Pow, ReduceMean, Sqrt, Div.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let row = group.x * 64u;
  var mean = 0.0h;
  for (var k = 0u; k < 64u; k++) { mean += x[row + k] / 64.0h; }
  var variance = 0.0h;
  for (var k = 0u; k < 64u; k++) {
    let centred = x[row + k] - mean;
    variance += centred * centred / 64.0h;
  }
  let normalized = (x[row + local.x] - mean) / sqrt(variance + 1e-5h);
  out[row + local.x] = normalized * weight[local.x] + bias[local.x];
}
