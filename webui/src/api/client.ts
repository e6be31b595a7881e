/** The HTTP half of the contract. Every failure becomes an Error whose message is a sentence for a person. */

import type { Comparison, RunSides, SuiteHistory, TestHistory, TextVersion } from "./generated/results";
import type {
  Devices,
  Job,
  JobKind,
  KernelDetail,
  KernelNow,
  ModelList,
  PairingLink,
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

export async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
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

export function post<T>(path: string, body: object, method = "POST"): Promise<T> {
  const headers = { ...CHANGES, "Content-Type": "application/json" };
  return request(path, { method, headers, body: JSON.stringify(body) });
}

const part = encodeURIComponent;

async function bytes(path: string): Promise<ArrayBuffer> {
  const response = await fetch(path);
  if (response.ok) return response.arrayBuffer();
  const body: unknown = await response.json().catch(() => null);
  throw new ApiError(sentence(body) ?? `The server answered ${response.status}.`, response.status);
}

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
  runs: (suite: string) => request<RunSides>(`/api/suites/${part(suite)}/runs`),
  comparison: (suite: string, before: string, after: string) =>
    request<Comparison>(`/api/suites/${part(suite)}/comparison?before=${part(before)}&after=${part(after)}`),
  devices: () => request<Devices>("/api/devices"),
  job: (job: string, after: number) => request<Job>(`/api/jobs/${part(job)}?after=${after}`),
  /** `files`: texts that are tried in the place of those on disk. */
  startOutputs: (
    what: "outputs" | "workgroups",
    suite: string,
    test: string,
    device: string,
    files?: Record<string, string>,
  ) =>
    post<{ job: string }>(`/api/suites/${part(suite)}/tests/${part(test)}/${what}`, {
      device,
      ...(files && { files }),
    }),
  outputs: (job: string) => bytes(`/api/jobs/${part(job)}/outputs`),
  blob: (digest: string) => bytes(`/blobs/${part(digest)}`),
  /** `files`: texts that are tried in the place of those on disk. */
  startJob: (
    kind: JobKind,
    suite: string,
    devices: string[],
    kernels: string[] | null,
    files?: Record<string, string>,
  ) => post<{ job: string }>("/api/jobs", { kind, suite, devices, kernels, ...(files && { files }) }),
  /** `was`: SHA-256 of the text that this one was made from. Another one there by now is an ApiError of status 409. */
  versions: (suite: string, kernel: string) =>
    request<{ versions: TextVersion[] }>(`/api/suites/${part(suite)}/kernels/${part(kernel)}/versions`),
  /** Why a kernel would be none with these texts in the place of its own; null where it is one. */
  checkFiles: (suite: string, kernel: string, files: Record<string, string>) =>
    post<{ problem: string | null }>(`/api/suites/${part(suite)}/kernels/${part(kernel)}/check`, { files }),
  writeFile: (suite: string, kernel: string, name: string, text: string, was: string) =>
    post<{ digest: string; kernel: KernelNow }>(
      `/api/suites/${part(suite)}/kernels/${part(kernel)}/files/${part(name)}`,
      { text, was },
      "PUT",
    ),
  pair: () => post<PairingLink>("/api/pairings", {}),
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
