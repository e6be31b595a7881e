import { browserName } from "./browser_name";

/** What a session needs to know of where it runs. */
export interface Platform {
  /** "browser", "node" or "deno". */
  runtime: string;
  /** Name and version for people: "Chromium 156", "node-dawn 0.6.2". */
  name: string;
  userAgent: string;
  /** The server's: "http://127.0.0.1:8000". */
  origin: string;
  /** Whether WebGPU may be used here at all. */
  secure: boolean;
  gpu: GPU | undefined;
  /** Bytes of this process, where the GPU's work is done in it. */
  memory?: () => number;
}

/** A page or its worker. */
export function browserPlatform(): Platform {
  const { userAgentData } = navigator as { userAgentData?: { brands?: { brand: string }[] } };
  return {
    runtime: "browser",
    name: browserName(
      navigator.userAgent,
      (userAgentData?.brands ?? []).map(({ brand }) => brand),
    ),
    userAgent: navigator.userAgent,
    origin: location.origin,
    secure: isSecureContext,
    gpu: (navigator as Partial<NavigatorGPU>).gpu,
  };
}
