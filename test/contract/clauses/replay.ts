import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import type { Server } from '../harness/server.js';

/** Section E, and C87d of I. */
export function replay(server: Server): void {
  /** The request twice, one execution, the second response a replay of the first. */
  async function sendTwice(clause: string, name = 'charge') {
    const scenario = server.scenario(clause);
    const first = await scenario.send(name);
    const second = await scenario.send(name);
    expectReplay(second, first);
    expect(await scenario.executions()).toBe(1);
    return [first, second] as const;
  }

  it('C61 the same status and bytes five times, one execution', async () => {
    const scenario = server.scenario('C61');
    const first = await scenario.send('charge');
    expect(first.json).toEqual({ execution: 1, key: scenario.key, text: 'ü€😀' });
    for (let times = 0; times < 5; times += 1) expectReplay(await scenario.send('charge'), first);
    expect(await scenario.executions()).toBe(1);
  });

  it('C62 the handler’s header fields are replayed as they were first sent', async () => {
    const [, again] = await sendTwice('C62');
    const names = ['Content-Language', 'Location', 'ETag', 'X-Own'];
    const values = ['de', '/things/7?a=b%20c', '"version 7"', 'kept as it is'];
    expect(names.map((name) => again.header(name))).toEqual(values);
    expect(again.header('content-type')).toContain('application/vnd.api+json');
  });

  it('C62 with the option http.replayHeaders only the named ones are replayed', async () => {
    const scenario = server.scenario('C62');
    const first = await scenario.send('charge, chosen fields');
    const again = await scenario.send('charge, chosen fields');
    expect(again).toMatchObject({ status: 201, replayed: true, text: first.text });
    expect(first.header('x-own')).toBe('sent once');
    expect([again.header('etag'), again.header('x-own')]).toEqual(['"version 7"', undefined]);
  });

  it('C63 every line of a repeated field is replayed, in its order', async () => {
    const [, again] = await sendTwice('C63');
    expect(again.all('link')).toEqual(['</a>; rel="next"', '</b>; rel="prev", </c>; rel="up"']);
  });

  it('C64 the date is that of the replay, once', async () => {
    const [first, again] = await sendTwice('C64');
    expect(first.header('date')).toContain('1994');
    expect(again.all('date')).toHaveLength(1);
    expect(again.header('date')).not.toContain('1994');
  });

  it('C65 hop-by-hop fields are not replayed', async () => {
    const [first, again] = await sendTwice('C65');
    const names = ['Proxy-Connection', 'TE', 'Upgrade', 'Trailer', 'Transfer-Encoding'];
    expect(names.filter((name) => first.header(name) === undefined)).toEqual([]);
    expect(names.filter((name) => again.header(name) !== undefined)).toEqual([]);
    expect(first.header('keep-alive')).toBe('timeout=99');
    expect(again.header('keep-alive')).not.toBe('timeout=99');
  });

  it('C66 cookies are not replayed', async () => {
    const [first, again] = await sendTwice('C66');
    expect(first.all('set-cookie')).toEqual(['session=1', 'theme=dark']);
    expect(again.all('set-cookie')).toEqual([]);
  });

  it('C67 what belongs to the exchange is not replayed, even if the handler sets it', async () => {
    const [first, again] = await sendTwice('C67');
    const names = [
      ...['traceparent', 'Server-Timing', 'RateLimit-Limit', 'RateLimit-Remaining', 'Age', 'Via'],
      ...['Server', 'WWW-Authenticate', 'Access-Control-Allow-Origin', 'Authorization'],
      ...['Authentication-Info', 'X-Auth-Token', 'X-Amzn-Trace-Id'],
    ];
    expect(names.filter((name) => first.header(name) === undefined)).toEqual([]);
    expect(names.filter((name) => again.header(name) === first.header(name))).toEqual([]);
    expect(first.header('x-request-id')).toBe('of the first');
    expect(again.header('x-request-id')).toMatch(/^exchange-/);
  });

  it('C67 what the application sets in each exchange comes from this one', async () => {
    const scenario = server.scenario('C67');
    const first = await scenario.send('charge from one origin');
    const again = await scenario.send('charge from another origin');
    expectReplay(again, first);
    expect(again.header('access-control-allow-origin')).toBe('https://two.example.com');
    expect(again.header('x-request-id')).toMatch(/^exchange-/);
    expect(again.header('x-request-id')).not.toBe(first.header('x-request-id'));
    expect(again.header('x-exchange')).toMatch(/^\d+$/);
    expect(again.header('x-exchange')).not.toBe(first.header('x-exchange'));
  });

  it('C68 204 has no body and no Content-Type, and keeps its own fields', async () => {
    const [first, again] = await sendTwice('C68');
    expect(first.status).toBe(204);
    expect(again.body).toHaveLength(0);
    expect(again.header('content-type')).toBeUndefined();
    expect([again.header('x-own'), again.header('etag')]).toEqual(['kept', '"1"']);
  });

  it('C69 512 B and 300 kB of octets are byte-identical with their Content-Disposition', async () => {
    for (const [name, length] of [
      ['512 octets', 512],
      ['300 kB', 300_000],
    ] as const) {
      const [, again] = await sendTwice('C69', name);
      expect(again.body).toHaveLength(length);
      expect(again.header('content-disposition')).toBe('attachment; filename="1.pdf"');
    }
  });

  it('C70 a chunked response replays whole', async () => {
    const [, again] = await sendTwice('C70');
    expect(again.text).toMatch(/^1:0;1:1;.*1:19;$/);
  });

  it('C70a a response over outcome.maxBytes goes out whole and is not replayed', async () => {
    for (const [name, length] of [
      ['charge', 2_001],
      ['stream', 3_000],
      ['stream beyond the default', 80 * 65_536],
    ] as const) {
      const scenario = server.scenario('C70a');
      const first = await scenario.send(name);
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(first.body).toHaveLength(length);
      expectProblem(await scenario.send(name), 'response-not-kept');
      expectProblem(await scenario.send(name), 'response-not-kept');
      expect(await scenario.executions()).toBe(1);
    }
  });

  it('C70a a failure over outcome.maxBytes is not kept, as any other', async () => {
    for (const as of ['text', 'stream']) {
      const scenario = server.scenario('C70a');
      expect(await scenario.send('failure', { as })).toMatchObject({
        status: 503,
        replayed: false,
      });
      expect(await scenario.send('failure', { as })).toMatchObject({
        status: 201,
        replayed: false,
      });
      expectProblem(await scenario.send('failure', { as }), 'response-not-kept');
      expect(await scenario.executions()).toBe(2);
    }
  });

  it('C71 303 replays with its Location', async () => {
    const [, again] = await sendTwice('C71');
    expect([again.status, again.header('location')]).toEqual([303, '/things/7']);
  });

  it('C72 the length fits: nothing is left over on the connection', async () => {
    for (const name of ['charge', 'no content', 'octets', 'chunks', 'redirect']) {
      const scenario = server.scenario('C72');
      const [first, ...replays] = await scenario.sendOnOneConnection(name, name, name);
      for (const again of replays) {
        expectReplay(again, first!);
        const length = again.status === 204 ? undefined : String(again.body.length);
        expect(again.header('content-length')).toBe(length);
      }
    }
  });

  it('C73 only replays carry the marker', async () => {
    const scenario = server.scenario('C73');
    const pending = await scenario.hold('charge');
    const inFlight = await scenario.send('charge');
    await scenario.order('open-gate');
    const responses = [
      inFlight,
      await pending.response,
      await scenario.send('charge'),
      await scenario.send('another payload'),
      await scenario.send('malformed key'),
      await scenario.send('no key'),
      await scenario.send('no key, optional'),
    ];
    expect(responses.map(({ status, lines }) => [status, marker(lines)])).toEqual([
      [409, []],
      [201, []],
      [201, ['true']],
      [422, []],
      [400, []],
      [400, []],
      [201, []],
    ]);
  });

  it('C73 with the option http.replayHeader the marker has another name', async () => {
    const scenario = server.scenario('C73');
    const first = await scenario.send('charge, marked otherwise');
    const again = await scenario.send('charge, marked otherwise');
    expect([first.header('x-replayed'), again.header('x-replayed')]).toEqual([undefined, 'true']);
    expect(marker(again.lines)).toEqual([]);
  });

  it('C73 a first response is not marked, whatever its handler sets', async () => {
    const scenario = server.scenario('C73');
    const responses = [];
    for (let i = 0; i < 2; i += 1) responses.push(await scenario.send('charge that marks itself'));
    expect(responses.map(({ lines }) => marker(lines))).toEqual([[], ['true']]);
  });

  it('C73a a browser may read the marker and Retry-After', async () => {
    const scenario = server.scenario('C73a');
    const pending = await scenario.hold('charge from a page');
    const inProgress = await scenario.send('charge from a page');
    await scenario.order('open-gate');
    await pending.response;
    const again = await scenario.send('charge from a page');
    expect(visible(inProgress, 'Retry-After')).toBe('1');
    expect(visible(again, 'Idempotent-Replayed')).toBe('true');
    const preflight = await scenario.send('preflight');
    expect(preflight.header('access-control-allow-headers')).toContain('idempotency-key');
  });

  it('C87d with storeBody: false only the fact is kept', async () => {
    const scenario = server.scenario('C87d');
    expect((await scenario.send('secret')).text).toContain('for one pair of eyes');
    const again = await scenario.send('secret');
    expectProblem(again, 'response-not-kept');
    expect(again.text).not.toContain('for one pair of eyes');
    expectProblem(await scenario.send('another payload'), 'key-reused');
    expect(await scenario.executions()).toBe(1);
  });
}

function marker(lines: readonly (readonly [name: string, value: string])[]): string[] {
  const found = lines.filter(([name]) => name.toLowerCase() === 'idempotent-replayed');
  return found.map(([, value]) => value);
}

/** What a script of a page on another origin can read of a response. */
export function visible(response: RawResponse, name: string): string | undefined {
  expect(response.header('access-control-allow-origin')).toBe('https://shop.example.com');
  const exposed =
    response.header('access-control-expose-headers')?.toLowerCase().split(/, */) ?? [];
  return exposed.includes(name.toLowerCase()) ? response.header(name) : undefined;
}
