@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

fn tanh_by_exp(a : f32) -> f32 {
  let e = exp(2.0 * a);
  return (e - 1.0) / (e + 1.0);  // infinity / infinity from 44.4 on
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id : vec3<u32>) {
  let v = x[id.x];
  out[id.x] = 0.5 * v * (1.0 + tanh_by_exp(0.7978845608 * (v + 0.044715 * v * v * v)));
}
