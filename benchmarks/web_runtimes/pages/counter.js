/** Counts what goes through WebGPU from now on. */
export function counted() {
  const live = new Map();
  let [bytes, most, dispatches, submissions] = [0, 0, 0, 0];
  const around = (of, name, before) => {
    const original = of.prototype[name];
    of.prototype[name] = function (...given) {
      return before.call(this, () => original.apply(this, given));
    };
  };
  around(GPUDevice, "createBuffer", function (make) {
    const buffer = make();
    live.set(buffer, buffer.size);
    bytes += buffer.size;
    most = Math.max(most, bytes);
    return buffer;
  });
  around(GPUBuffer, "destroy", function (destroy) {
    bytes -= live.get(this) ?? 0;
    live.delete(this);
    return destroy();
  });
  for (const name of ["dispatchWorkgroups", "dispatchWorkgroupsIndirect"])
    around(GPUComputePassEncoder, name, (dispatch) => {
      dispatches++;
      return dispatch();
    });
  around(GPUQueue, "submit", (submit) => {
    submissions++;
    return submit();
  });
  return {
    /** Bytes of buffers that are not destroyed, now and at most. */
    memory: () => ({ live: bytes, most, buffers: live.size }),
    /** Of one call. */
    async call(embed) {
      [dispatches, submissions] = [0, 0];
      await embed();
      return { dispatches, submissions };
    },
  };
}
