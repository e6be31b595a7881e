import type { CompiledModel, Instruction } from "../compiled/generated/model";
import type { HostFunction, HostModules } from "./api";
import { TapmlError } from "./error";

/** Throws a TapmlError of kind "program" where there is none. */
export function hostFunction(modules: HostModules, module: string, name: string): HostFunction {
  const functions = Object.hasOwn(modules, module) ? modules[module] : undefined;
  const found = functions && Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (typeof found === "function") return found;
  const fix = `give load() \`modules: { ${module}: { ${name} } }\``;
  throw new TapmlError(
    "program",
    `the model calls the host function ${module}.${name}, and there is none`,
    fix,
  );
}

/** Throws where a function that the model calls is not there. */
export function checkModules({ functions }: CompiledModel, modules: HostModules): void {
  const visit = (code: readonly Instruction[]) => {
    for (const instruction of code) {
      if (instruction.op === "call") hostFunction(modules, instruction.module, instruction.function);
      else if (instruction.op === "loop") visit(instruction.body);
      else if (instruction.op === "if") {
        visit(instruction.then);
        visit(instruction.else ?? []);
      }
    }
  };
  for (const { code } of Object.values(functions)) visit(code);
}
