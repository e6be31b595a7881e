/** Texts that a suite's model writes, and steps of them: docs/http-api.md. */

import { post, request } from "./client";
import type { Device, JobEnd } from "./types";

/** One was chosen, by calls of `tokens` tokens. */
export interface TokenEvent {
  type: "token";
  id: number;
  text: string | null;
  position: number;
  function: string;
  tokens: number;
  seconds: number;
  gpu_seconds: number | null;
  /** Bytes of the model's states. */
  states: number;
  /** The suite's step with these tokens. */
  carved: number | null;
}

export type TextEvent =
  | { type: "device"; device: Device }
  | {
      type: "prompt";
      ids: number[];
      capacity: number;
      bytes_per_token: number;
      tolerance: { cosine: number; max_abs_error: number; reasons: string[] } | null;
      /** What runs, by the digests of its texts. */
      kernels: Record<string, string>;
    }
  | TokenEvent
  | {
      type: "compared";
      position: number;
      cosine: number | null;
      max_abs_error: number | null;
      within: boolean | null;
      greedy: number;
      reference_greedy: number;
      reference_text: string | null;
      /** How far the device's likeliest token is below the reference's, in the reference's logits. */
      margin: number;
    }
  | { type: "compare"; done: number; total: number }
  | { type: "message"; level: "info" | "warning" | "error"; text: string }
  | { type: "ended"; state: JobEnd; error: string | null };

export interface TextDocument {
  interrupted: boolean;
  text: string;
  ids: number[];
  reason: "length" | "stop" | "end" | "capacity" | "abort";
  prompt_tokens: number;
}

/** Operator calls of a step, judged. */
export interface StepDocument {
  calls: {
    node: string;
    kernel: string;
    verdict: "pass" | "fail" | "unbounded" | "error" | "unsupported";
    message: string;
    /** Of the suite; null where the call could not be computed there. */
    test: string | null;
  }[];
  left_out: number;
  why: string[];
}

/** A text's job, or that of a step: events from number `after` on. */
export interface TextJob {
  state: "running" | JobEnd;
  events: TextEvent[];
  next: number;
  document: (Partial<TextDocument> & Partial<StepDocument>) | null;
  error: string | null;
}

export const textJob = (job: string, after: number) =>
  request<TextJob>(`/api/jobs/${encodeURIComponent(job)}?after=${after}`);

export const startText = (suite: string, body: object) =>
  post<{ job: string }>(`/api/suites/${encodeURIComponent(suite)}/texts`, body);

export const startStep = (suite: string, device: string, ids: number[], promptTokens: number) =>
  post<{ job: string }>(`/api/suites/${encodeURIComponent(suite)}/steps`, {
    device,
    ids,
    prompt_tokens: promptTokens,
  });
