@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read> y : array<f32>;
@group(0) @binding(2) var<storage, read_write> out : array<f32>;

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group : vec3<u32>) {
  out[group.y] = x[group.y] + y[group.y];
}
