@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read> count : array<i32>;
@group(0) @binding(2) var<storage, read_write> product : array<f32>;

// WGSL has no two types for one address; whoever saves memory keeps bits.
var<workgroup> shared_words : array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let i = local.x;
  shared_words[i] = bitcast<u32>(x[i]);
  workgroupBarrier();
  shared_words[i] = bitcast<u32>(count[i]);
  workgroupBarrier();
  product[i] = bitcast<f32>(shared_words[63u - i]) * f32(bitcast<i32>(shared_words[63u - i]));
}
