import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  idempotentFetch,
  IdempotencyProblemError,
  type IdempotentFetchError,
  type IdempotentFetchOptions,
} from 'nestjs-idempotency/client';
import { problem, ScriptedServer } from '../../support/http/wire/scripted-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { driveTimers } from '../../support/clocks/driven-time.js';

const created = { status: 201 };
const unlimited = { deadlineMs: Infinity, tryTimeoutMs: Infinity };

const server = useServer(() => ScriptedServer.start());

/** Resolves as soon as exactly this many timers are pending. */
async function untilTimers(count: number): Promise<void> {
  while (jest.getTimerCount() !== count) await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(() => driveTimers(false));
afterEach(() => void jest.useRealTimers());

function pay(options: IdempotentFetchOptions, signal?: AbortSignal) {
  const init = { method: 'POST', body: '{}', ...(signal && { signal }) };
  return idempotentFetch(server.url, init, { key: 'order-7', random: () => 0.5, ...options });
}

const failure = (call: Promise<unknown>) =>
  call.then(
    () => Promise.reject(new Error('It did not fail')),
    (error: unknown) => error as IdempotentFetchError,
  );

describe('a pause', () => {
  /** Milliseconds of the next pause. */
  async function pausedFor(ms: number): Promise<void> {
    await untilTimers(1);
    jest.advanceTimersByTime(ms - 1);
    expect(jest.getTimerCount()).toBe(1);
    jest.advanceTimersByTime(1);
    expect(jest.getTimerCount()).toBe(0);
  }

  it('is drawn from a step that doubles up to the cap', async () => {
    server.runSteps(...Array.from({ length: 6 }, () => ({ status: 503 })), created);
    const options = { ...unlimited, backoffBaseMs: 200, backoffCapMs: 2_000 };
    const call = pay(options);
    for (const ms of [100, 200, 400, 800, 1_000, 1_000]) await pausedFor(ms);
    expect(await call).toMatchObject({ tries: 7 });
  });

  it.each([
    ['503', { status: 503, headers: { 'retry-after': '3' } }],
    ['429', { status: 429, headers: { 'retry-after': '3' } }],
    ['425', { status: 425, headers: { 'retry-after': '3' } }],
    ['500', { status: 500, headers: { 'retry-after': '3' } }],
    ['409 in progress', problem(409, 'in-progress', '3')],
  ])('adds what Retry-After asks for, with %s', async (_, step) => {
    server.runSteps(step, created);
    const call = pay({ ...unlimited, backoffBaseMs: 200 });
    await pausedFor(3_100);
    expect(await call).toMatchObject({ tries: 2 });
  });

  it('lasts until the date of Retry-After', async () => {
    const date = 'Sun, 06 Nov 1994 08:49:07 GMT';
    const headers = { date, 'retry-after': 'Sun, 06 Nov 1994 08:49:12 GMT' };
    server.runSteps({ status: 503, headers }, created);
    const call = pay({ ...unlimited, random: () => 0 });
    await pausedFor(5_000);
    expect(await call).toMatchObject({ tries: 2 });
  });
});

describe('the deadline', () => {
  it('ends a request', async () => {
    server.runSteps('stay silent');
    const call = failure(pay({ deadlineMs: 5_000, tryTimeoutMs: Infinity }));
    await server.received(1);
    jest.advanceTimersByTime(4_999);
    expect(jest.getTimerCount()).toBe(1);
    jest.advanceTimersByTime(1);
    const error = await call;
    expect(error).toMatchObject({
      name: 'IdempotentFetchError',
      code: 'idempotency_fetch_deadline',
      key: 'order-7',
      tries: 1,
      retryable: true,
    });
    expect(error.response).toBeUndefined();
    expect(jest.getTimerCount()).toBe(0);
  });

  it('ends the call before a pause that does not fit, and throws the last response', async () => {
    server.runSteps(problem(409, 'in-progress', '5'));
    const error = await failure(pay({ deadlineMs: 5_000 }));
    expect(error).toMatchObject({ code: 'idempotency_fetch_deadline', key: 'order-7', tries: 1 });
    expect(error.cause).toBeInstanceOf(IdempotencyProblemError);
    expect(error.cause).toMatchObject({ code: 'idempotency_in_progress' });
    expect(error.response!.status).toBe(409);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('covers all attempts and pauses together', async () => {
    server.runSteps('hang up', 'stay silent');
    const options = { deadlineMs: 5_000, tryTimeoutMs: Infinity, backoffBaseMs: 4_000 };
    const call = failure(pay(options));
    await untilTimers(2);
    jest.advanceTimersByTime(2_000);
    await server.received(2);
    jest.advanceTimersByTime(2_999);
    expect(jest.getTimerCount()).toBe(1);
    jest.advanceTimersByTime(1);
    expect(await call).toMatchObject({
      code: 'idempotency_fetch_deadline',
      tries: 2,
      cause: { message: 'fetch failed' },
    });
  });

  it('ends the reading of a stream', async () => {
    const body = new ReadableStream();
    const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
    const call = failure(
      idempotentFetch(server.url, init, { deadlineMs: 5_000, bufferStream: true }),
    );
    jest.advanceTimersByTime(5_000);
    expect(await call).toMatchObject({ code: 'idempotency_fetch_deadline', tries: 0 });
  });

  it('is one minute by default', async () => {
    server.runSteps('stay silent');
    const call = failure(pay({ tryTimeoutMs: Infinity }));
    await server.received(1);
    jest.advanceTimersByTime(59_999);
    expect(jest.getTimerCount()).toBe(1);
    jest.advanceTimersByTime(1);
    expect(await call).toMatchObject({ code: 'idempotency_fetch_deadline' });
  });
});

describe('the timeout of one attempt', () => {
  it('makes an attempt that takes longer a lost one', async () => {
    server.runSteps('stay silent', created);
    const call = pay({ deadlineMs: Infinity, tryTimeoutMs: 700, backoffBaseMs: 1 });
    await server.received(1);
    jest.advanceTimersByTime(699);
    expect(server.requests).toHaveLength(1);
    jest.advanceTimersByTime(1);
    expect(jest.getTimerCount()).toBe(0);
    await untilTimers(1);
    jest.advanceTimersByTime(1);
    expect(await call).toMatchObject({ tries: 2 });
  });

  it('ends the last attempt', async () => {
    server.runSteps('stay silent');
    const call = failure(pay({ tryTimeoutMs: 700, maxTries: 1 }));
    await server.received(1);
    jest.advanceTimersByTime(700);
    expect(await call).toMatchObject({
      code: 'idempotency_fetch_tries_exhausted',
      cause: { name: 'TimeoutError', message: 'No response within 700 ms.' },
    });
  });

  it('holds for a fetch that ignores its signal', async () => {
    const deaf = () => new Promise<Response>(() => undefined);
    const call = failure(pay({ tryTimeoutMs: 700, maxTries: 1, fetch: deaf }));
    await untilTimers(2);
    jest.advanceTimersByTime(700);
    expect(await call).toMatchObject({ cause: { name: 'TimeoutError' } });
  });
});

describe("the caller's signal", () => {
  const reason = new Error('The page was left');

  it('ends a request', async () => {
    server.runSteps('stay silent');
    const controller = new AbortController();
    const call = failure(pay(unlimited, controller.signal));
    await server.received(1);
    controller.abort(reason);
    const error = await call;
    expect(error).toMatchObject({
      name: 'IdempotentFetchError',
      code: 'idempotency_fetch_aborted',
      key: 'order-7',
      tries: 1,
      retryable: true,
    });
    expect(error.cause).toBe(reason);
  });

  it('ends a pause', async () => {
    server.runSteps({ status: 503, headers: { 'retry-after': '30' } });
    const controller = new AbortController();
    const call = failure(pay(unlimited, controller.signal));
    await untilTimers(1);
    controller.abort(reason);
    const error = await call;
    expect(error).toMatchObject({ code: 'idempotency_fetch_aborted', tries: 1 });
    expect([error.cause, error.response!.status]).toEqual([reason, 503]);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('prevents any request if already aborted', async () => {
    server.runSteps(created);
    const error = await failure(pay(unlimited, AbortSignal.abort(reason)));
    expect(error).toMatchObject({ code: 'idempotency_fetch_aborted', tries: 0, key: 'order-7' });
    expect(server.requests).toHaveLength(0);
  });

  it('may be that of a Request', async () => {
    server.runSteps('stay silent');
    const controller = new AbortController();
    const request = new Request(server.url, { method: 'POST', signal: controller.signal });
    const call = failure(idempotentFetch(request, {}, unlimited));
    await server.received(1);
    controller.abort(reason);
    expect(await call).toMatchObject({ code: 'idempotency_fetch_aborted', cause: reason });
  });

  it('does not hide that the deadline came first', async () => {
    server.runSteps('stay silent');
    const controller = new AbortController();
    const call = failure(pay({ deadlineMs: 5_000 }, controller.signal));
    await server.received(1);
    jest.advanceTimersByTime(5_000);
    controller.abort(reason);
    expect(await call).toMatchObject({ code: 'idempotency_fetch_deadline' });
  });

  it('of a Request is ignored when the caller passes null', async () => {
    server.runSteps(created);
    const request = new Request(server.url, { method: 'POST', signal: AbortSignal.abort(reason) });
    expect(await idempotentFetch(request, { signal: null }, unlimited)).toMatchObject({ tries: 1 });
  });

  it('has no listener left after the call', async () => {
    server.runSteps({ status: 503 }, created);
    const { signal } = new AbortController();
    const call = pay({ ...unlimited, backoffBaseMs: 1 }, signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await untilTimers(1);
    jest.advanceTimersByTime(1);
    await call;
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
