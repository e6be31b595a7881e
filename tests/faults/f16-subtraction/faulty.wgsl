enable f16;

@group(0) @binding(0) var<storage, read> x : array<f16>;
@group(0) @binding(1) var<storage, read> y : array<f16>;
@group(0) @binding(2) var<storage, read_write> out : array<f16>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let i = local.x;
  // Ten bits of significand instead of eleven: 1035 becomes 1036.
  out[i] = 2.0h * floor(x[i] / 2.0h + 0.5h) - y[i];
}
