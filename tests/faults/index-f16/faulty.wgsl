enable f16;

@group(0) @binding(0) var<storage, read> x : array<f16>;
@group(0) @binding(1) var<storage, read_write> out : array<f16>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id : vec3<u32>) {
  let source = f16(id.x) / 2.0h;
  out[id.x] = x[u32(floor(source))];
}
