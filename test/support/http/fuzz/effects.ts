import type { RawResponse } from '../wire/raw-response.js';
import {
  encode,
  type FuzzedRequest,
  type FuzzedContent,
  saidKey,
  type SaidKey,
} from './fuzzed-request.js';
import { isDeepStrictEqual } from 'node:util';

/** One execution of a handler, as the application itself recorded it. */
export interface Effect {
  /** Of the executed request. */
  readonly number: number;
  readonly route: string;
}

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];

/** Routes on which every part of the body counts. */
const WHOLE_BODY = new Set(['required', 'optional', 'strict', 'native', 'bytes']);

interface Exchange {
  readonly request: FuzzedRequest;
  readonly responses: readonly RawResponse[];
}

/** Compares the effects in the application with its requests, without relying on the library's reports. */
export class Effects {
  readonly violations: string[] = [];
  private readonly effects: Effect[] = [];
  private readonly requests = new Map<number, FuzzedRequest>();
  /** The one request executed for a caller's key on a route. */
  private readonly executed = new Map<string, number>();

  /** @param counts - of all runs: how often each case was met. A comparison without cases proves nothing. */
  constructor(private readonly counts: Map<string, number>) {}

  add(effect: Effect): void {
    this.effects.push(effect);
  }

  sent(request: FuzzedRequest): void {
    this.requests.set(request.number, request);
  }

  responded({ request, responses }: Exchange): void {
    for (const response of responses) {
      this.count(String(response.status));
      if (response.status >= 500) this.violation('answered with an error', request, response);
    }
    const [response] = responses;
    if (response !== undefined && isSuccess(response)) this.compareResponse(request, response);
  }

  /** Call it after all responses. */
  compareAll(): void {
    for (const effect of this.effects) {
      const request = this.requests.get(effect.number);
      if (request === undefined)
        this.violations.push(`executed without a request: ${effect.route}`);
      else this.compareEffect(effect, request);
    }
    for (const request of this.requests.values()) {
      if (request.content.isPlain) this.comparePlain(request);
    }
  }

  private compareEffect({ number, route }: Effect, request: FuzzedRequest): void {
    if (isSafe(request)) return;
    const key = keyOn(route, request);
    if (key.kind === 'missing' && route === 'optional') {
      this.count('unprotected by its own choice');
      return;
    }
    if (key.kind !== 'valid') {
      this.violation(`executed on ${route} though the key is ${key.kind}`, request);
      return;
    }
    if (request.content.caller === undefined)
      this.violation('executed for an unknown caller', request);
    const name = requestIn(route, request, key.key);
    const first = this.executed.get(name);
    if (first !== undefined) {
      this.violation(`executed on ${route} once more, after request ${first}`, request);
    }
    this.executed.set(name, number);
    this.count('executed');
  }

  /** Nothing was wrong with it: the request, or a retry that overtook it, was executed. */
  private comparePlain(request: FuzzedRequest): void {
    const key = keyOn(routeOf(request), request);
    const isExecuted =
      key.kind === 'valid' && this.executed.has(requestIn(routeOf(request), request, key.key));
    if (!isExecuted) this.violation('a plain request was not executed', request);
  }

  /** A success names the executed request: its own, or the one that it replays. */
  private compareResponse(request: FuzzedRequest, response: RawResponse): void {
    if (isSafe(request) || response.body.length === 0) return;
    const { execution } = response.json as { execution: number };
    const isReplay = execution !== request.number;
    if (isReplay !== response.replayed) this.violation('the marker is wrong', request, response);
    if (!isReplay) return;
    this.count('replayed');
    const original = this.requests.get(execution);
    const isOfTheSame = original !== undefined && sameRequest(original, request);
    if (isOfTheSame && WHOLE_BODY.has(routeOf(request))) {
      const isSame = isSameBody(original.content, request.content, routeOf(request) === 'bytes');
      if (isSame !== undefined) this.count('replayed for a body that was compared');
      if (isSame === false) this.violation('replayed for another body', request, response);
    }
    if (!isOfTheSame) this.violation('the replay is another request’s', request, response);
  }

  private count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  private violation(what: string, request: FuzzedRequest, response?: RawResponse): void {
    const sent = encode(request, 0).toString('latin1', 0, 1_500);
    const got = response === undefined ? '' : `\n--- answer ${response.status}: ${response.text}`;
    this.violations.push(`${what}: request ${request.number}\n${sent}${got}\n===`);
  }
}

function isSuccess({ status }: RawResponse): boolean {
  return status >= 200 && status < 300;
}

function isSafe({ content }: FuzzedRequest): boolean {
  return SAFE_METHODS.includes(content.method);
}

function keyOn(route: string, { content }: FuzzedRequest): SaidKey {
  return saidKey(content.keyLines, route === 'strict');
}

function requestIn(route: string, { content }: FuzzedRequest, key: string): string {
  return JSON.stringify([route, content.caller, key]);
}

function pathOf({ content }: FuzzedRequest): string {
  // In absolute form it is the same path (RFC 9112 §3.2.2).
  return content.target.replace(/^http:\/\/[^/?]*/, '').split('?')[0]!;
}

/** The first part of the path, which is the name of the route. */
function routeOf(request: FuzzedRequest): string {
  return pathOf(request).split('/')[1]!;
}

function sameRequest(one: FuzzedRequest, other: FuzzedRequest): boolean {
  const [left, right] = [one, other].map((request) =>
    JSON.stringify([request.content.caller, pathOf(request), keyOn(routeOf(request), request)]),
  );
  return left === right;
}

/**
 * Whether two bodies are the same JSON value, or the same bytes on a route that compares bytes.
 *
 * @returns `undefined` where that is hard to determine: another type, a coding, bytes that are lost on the
 * way.
 */
export function isSameBody(
  one: FuzzedContent,
  other: FuzzedContent,
  byBytes: boolean,
): boolean | undefined {
  const [left, right] = [plainBytes(one), plainBytes(other)];
  if (left === undefined || right === undefined) return undefined;
  if (byBytes) return left.equals(right);
  try {
    return isDeepStrictEqual(valueOf(left), valueOf(right));
  } catch {
    return undefined;
  }
}

function plainBytes({ body, framing, cutAt }: FuzzedContent): Buffer | undefined {
  if (body === undefined || body.coding !== undefined || cutAt !== undefined) return undefined;
  const isWhole = framing === 'length' || framing === 'chunked';
  return isWhole && body.types.join() === 'application/json' ? body.bytes : undefined;
}

/** Without the sign of a zero, which does not distinguish numbers. */
function valueOf(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString(), (_, value: unknown) => (value === 0 ? 0 : value));
}
