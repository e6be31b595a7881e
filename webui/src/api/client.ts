/** The HTTP half of the contract. Every failure becomes an Error whose message is a sentence for a person. */

import type {
  Devices,
  Job,
  JobKind,
  KernelDetail,
  Results,
  SuiteDetail,
  SuiteSummary,
  TestDetail,
} from "./types";

export class ApiError extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { Accept: "application/json", ...init.headers } });
  } catch {
    throw new ApiError("The tapml server does not answer. Is `tapml serve` still running?", 0);
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    throw new ApiError(
      sentence(body) ?? `The server answered ${response.status} to ${path}.`,
      response.status,
    );
  }
  if (body === null && response.status !== 204 && init.method !== "DELETE") {
    throw new ApiError(`The server's answer to ${path} is not JSON.`, response.status);
  }
  return body as T;
}

function sentence(body: unknown): string | null {
  if (typeof body !== "object" || body === null || !("error" in body)) return null;
  return typeof body.error === "string" && body.error !== "" ? body.error : null;
}

/** A foreign page cannot send this header without a CORS preflight, which the server refuses. */
const CHANGES = { "X-Tapml": "1" };

const part = encodeURIComponent;

export const api = {
  suites: () => request<SuiteSummary[]>("/api/suites"),
  suite: (suite: string) => request<SuiteDetail>(`/api/suites/${part(suite)}`),
  kernel: (suite: string, kernel: string) =>
    request<KernelDetail>(`/api/suites/${part(suite)}/kernels/${part(kernel)}`),
  test: (suite: string, test: string) =>
    request<TestDetail>(`/api/suites/${part(suite)}/tests/${part(test)}`),
  results: (suite: string) => request<Results>(`/api/suites/${part(suite)}/results`),
  devices: () => request<Devices>("/api/devices"),
  job: (job: string, after: number) => request<Job>(`/api/jobs/${part(job)}?after=${after}`),
  startJob: (kind: JobKind, suite: string, devices: string[], kernels: string[] | null) =>
    request<{ job: string }>("/api/jobs", {
      method: "POST",
      headers: { ...CHANGES, "Content-Type": "application/json" },
      body: JSON.stringify({ kind, suite, devices, kernels }),
    }),
  cancelJob: (job: string) =>
    request<unknown>(`/api/jobs/${part(job)}`, { method: "DELETE", headers: CHANGES }),
};
