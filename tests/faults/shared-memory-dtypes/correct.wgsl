@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read> count : array<i32>;
@group(0) @binding(2) var<storage, read_write> product : array<f32>;

var<workgroup> floats : array<f32, 64>;
var<workgroup> integers : array<i32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let i = local.x;
  floats[i] = x[i];
  integers[i] = count[i];
  workgroupBarrier();
  product[i] = floats[63u - i] * f32(integers[63u - i]);
}
