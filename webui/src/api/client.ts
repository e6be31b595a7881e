/** The HTTP half of the contract. Every failure becomes an Error whose message is a sentence for a person. */

import type { SuiteHistory, TestHistory } from "./generated/results";
import type {
  Devices,
  Job,
  JobKind,
  KernelDetail,
  ModelList,
  Results,
  Share,
  SuiteDetail,
  SuiteProblem,
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

/** Whatever was thrown, as an Error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
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

function post<T>(path: string, body: object): Promise<T> {
  const headers = { ...CHANGES, "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body) });
}

const part = encodeURIComponent;

export const api = {
  models: () => request<ModelList>("/api/models"),
  suites: () => request<(SuiteSummary | SuiteProblem)[]>("/api/suites"),
  suite: (suite: string) => request<SuiteDetail>(`/api/suites/${part(suite)}`),
  kernel: (suite: string, kernel: string) =>
    request<KernelDetail>(`/api/suites/${part(suite)}/kernels/${part(kernel)}`),
  test: (suite: string, test: string) =>
    request<TestDetail>(`/api/suites/${part(suite)}/tests/${part(test)}`),
  results: (suite: string) => request<Results>(`/api/suites/${part(suite)}/results`),
  history: (suite: string) => request<SuiteHistory>(`/api/suites/${part(suite)}/history`),
  testHistory: (suite: string, test: string) =>
    request<TestHistory>(`/api/suites/${part(suite)}/history/${part(test)}`),
  devices: () => request<Devices>("/api/devices"),
  job: (job: string, after: number) => request<Job>(`/api/jobs/${part(job)}?after=${after}`),
  startJob: (kind: JobKind, suite: string, devices: string[], kernels: string[] | null) =>
    post<{ job: string }>("/api/jobs", { kind, suite, devices, kernels }),
  shares: (suite: string) => request<{ shares: Share[] }>(`/api/suites/${part(suite)}/shares`),
  createShare: (suite: string, test: string, device: string, days: number | null) =>
    post<{ path: string; share: Share }>(`/api/suites/${part(suite)}/tests/${part(test)}/shares`, {
      device,
      days,
    }),
  revokeShare: (suite: string, name: string) =>
    request<unknown>(`/api/suites/${part(suite)}/shares/${part(name)}`, {
      method: "DELETE",
      headers: CHANGES,
    }),
  /** The address of a download: a test as a file. */
  exportPath: (suite: string, test: string, form: string, device: string) =>
    `/api/suites/${part(suite)}/tests/${part(test)}/export?form=${part(form)}&device=${part(device)}`,
  text: async (path: string) => {
    const response = await fetch(path);
    if (!response.ok) {
      const body: unknown = await response.json().catch(() => null);
      throw new ApiError(sentence(body) ?? `The server answered ${response.status}.`, response.status);
    }
    return response.text();
  },
  openFile: (file: File) =>
    request<{ suite: string; path: string }>(`/api/imports?name=${part(file.name)}`, {
      method: "POST",
      headers: { ...CHANGES, "Content-Type": "application/octet-stream" },
      body: file,
    }),
  addTest: (target: string, suite: string, test: string) =>
    post<{ test: string; added: boolean }>(`/api/suites/${part(target)}/imports`, { suite, test }),
  cancelJob: (job: string) =>
    request<unknown>(`/api/jobs/${part(job)}`, { method: "DELETE", headers: CHANGES }),
};
