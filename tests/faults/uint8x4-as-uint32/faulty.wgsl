enable f16;

@group(0) @binding(0) var<storage, read> packed : array<u32>;
@group(0) @binding(1) var<storage, read> scale : array<f16>;
@group(0) @binding(2) var<storage, read_write> weight : array<f16>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id : vec3<u32>) {
  // The four bytes are one uint32 here.
  let byte = packed[id.x / 4u];
  weight[id.x] = (f16(byte) - 128.0h) * scale[id.x / 32u];
}
