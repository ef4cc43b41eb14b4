import { hash } from 'node:crypto';
import { Agent, request, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { isSuccess, type ApiResponse } from './response.js';
import type { EffectRequest } from './worker/effects.controller.js';
import { mishapText, type Mishap } from './worker/mishap.js';
import { CALLER_HEADER, EXECUTION_HEADER, MISHAP_HEADER } from './worker/settings.js';

/** The one caller of the laboratory. */
export const CALLER = 'lab';

/** Longer than any answer may take; without a limit, one that never comes would hold up the run for good. */
const RESPONSE_LIMIT_MS = 60_000;

/** Shorter than `Retry-After` asks for, to find keys that are still open. */
const RETRY_PAUSE_MS = 40;

export interface SendOptions {
  /** What is to happen to the attempt, if it becomes one. */
  readonly mishap?: Mishap | undefined;
  readonly body?: EffectRequest;
  /** The client leaves when it is aborted. */
  readonly signal?: AbortSignal;
}

export interface AskOptions extends SendOptions {
  /** How long to go on asking, in milliseconds. */
  readonly limitMs: number;
}

/** A client over keep-alive connections that logs every response. */
export class LabClient {
  readonly #agent = new Agent({ keepAlive: true, noDelay: true });

  constructor(private readonly log: (response: ApiResponse) => void) {}

  close(): void {
    this.#agent.destroy();
  }

  /** One request. Never rejects: a broken connection is an answer, too. */
  async send(url: string, key: string, options: SendOptions = {}): Promise<ApiResponse> {
    const sentAt = Date.now();
    const came = await this.#exchange(url, key, options).catch((error: unknown) => ({
      error: errorName(error),
      replayed: false,
    }));
    const response: ApiResponse = { key, url, sentAt, receivedAt: Date.now(), ...came };
    this.log(response);
    return response;
  }

  /**
   * As a decent client does: again, and to another worker, until there is a success or an answer that
   * says that no retry helps.
   *
   * @param urls - asked anew for every try, for workers come and go.
   * @returns the last answer; no success if the limit came first.
   */
  async ask(urls: () => readonly string[], key: string, options: AskOptions): Promise<ApiResponse> {
    const { limitMs, mishap, ...others } = options;
    const giveUpAt = performance.now() + limitMs;
    for (let round = 0; ; round += 1) {
      const all = urls();
      const url = all[round % all.length];
      if (url !== undefined) {
        const response = await this.send(url, key, round === 0 ? { ...others, mishap } : others);
        if (isSuccess(response) || isFinal(response) || performance.now() >= giveUpAt)
          return response;
      } else if (performance.now() >= giveUpAt) {
        throw new Error('there was no worker to ask');
      }
      await delay(RETRY_PAUSE_MS);
    }
  }

  #exchange(url: string, key: string, options: SendOptions): Promise<Partial<ApiResponse> & Marks> {
    const { mishap, body = {}, signal } = options;
    const payload = JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const headers = {
        'content-type': 'application/json',
        'content-length': payload.length,
        'idempotency-key': key,
        [CALLER_HEADER]: CALLER,
        ...(mishap && { [MISHAP_HEADER]: mishapText(mishap) }),
      };
      const settings = { method: 'POST', agent: this.#agent, headers, timeout: RESPONSE_LIMIT_MS };
      const sent = request(`${url}/effects`, { ...settings, ...(signal && { signal }) });
      sent
        .once('response', (response) => void read(response).then(resolve, reject))
        .once('error', reject)
        .once('timeout', () => {
          sent.destroy(Object.assign(new Error('no answer came'), { code: 'timeout' }));
        })
        .end(payload);
    });
  }
}

type Marks = Pick<ApiResponse, 'replayed'>;

async function read(response: IncomingMessage): Promise<Partial<ApiResponse> & Marks> {
  const { statusCode: status = 0, headers } = response;
  const body = await buffer(response);
  const execution = headers[EXECUTION_HEADER];
  const retryAfter = headers['retry-after'];
  const idempotencyStatus = headers['idempotency-status'];
  return {
    status,
    replayed: headers['idempotent-replayed'] === 'true',
    digest: hash('sha256', body, 'base64url'),
    ...(typeof execution === 'string' && { execution }),
    ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }),
    ...(typeof idempotencyStatus === 'string' && { idempotencyStatus }),
    ...(status >= 400 && codeOf(body)),
  };
}

function codeOf(body: Buffer): { code?: string } {
  try {
    const { code } = JSON.parse(body.toString()) as { code?: unknown };
    return typeof code === 'string' ? { code } : {};
  } catch {
    return {};
  }
}

function errorName(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}

/** Whether a retry with this key would get the same response. */
function isFinal({ status, retryAfter }: ApiResponse): boolean {
  return status !== undefined && status < 500 && retryAfter === undefined;
}
