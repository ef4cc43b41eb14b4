import { Controller, Get, Header, Logger, Post, Res } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  Idempotent,
  IdempotencyEvents,
  IdempotencyMeter,
  severityOf,
  type IdempotencyEvent,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import type { ExpressResponse, FastifyReply } from '../../../support/http/reply.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';

let runs = 0;

@Controller()
class BypassController {
  @Post('optional')
  @Idempotent({ operation: 'optional', key: { required: false } })
  optional() {
    return { run: (runs += 1) };
  }

  @Post('required')
  @Idempotent({ operation: 'required' })
  required() {
    return { run: (runs += 1) };
  }

  @Post('ignored')
  @Idempotent({ operation: 'ignored', caller: { scope: () => undefined, anonymous: 'ignore' } })
  ignored() {
    return { run: (runs += 1) };
  }

  @Post('disabled')
  @Idempotent({ operation: 'disabled', enabled: () => false })
  disabled() {
    return { run: (runs += 1) };
  }

  @Get('safe')
  @Idempotent({ operation: 'safe', key: { required: false } })
  safe() {
    return { run: (runs += 1) };
  }

  @Post('own-name')
  @Idempotent({ operation: 'own-name', key: { from: 'X-Order-Reference', required: false } })
  ownName() {
    return { run: (runs += 1) };
  }

  @Post('unclear-syntax')
  @Idempotent({
    operation: 'unclear-syntax',
    key: { required: false, syntax: (() => undefined) as never },
  })
  unclearSyntax() {
    return { run: (runs += 1) };
  }

  @Post('odd-fields')
  @Header('X-Fixed', 'a')
  @Idempotent({ operation: 'odd-fields' })
  oddFields(@Res({ passthrough: true }) response: ExpressResponse | FastifyReply) {
    const raw = 'raw' in response ? response.raw : response;
    for (const [name, value] of [
      ['x-bigint', 5n],
      ['x-date', new Date(0)],
      ['x-nan', NaN],
    ] as const) {
      raw.setHeader(name, value as never);
    }
    return { run: (runs += 1) };
  }
}

describe.each(platforms)('a request without protection on %s', (platform) => {
  const logger = new LoggedLines();
  let app: TestApp;
  let events: IdempotencyEvent[] = [];
  beforeAll(async () => {
    app = await startApp({
      platform,
      store: memoryStore(),
      controllers: [BypassController],
      guard: { canActivate: () => true },
      options: { caller: { scope: () => 'alice' } },
      configure: () => {
        Logger.overrideLogger(logger);
      },
    });
    app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => {
      events.push(event);
    });
  });
  afterAll(() => app.close());
  beforeEach(() => {
    runs = 0;
    events = [];
    logger.lines.length = 0;
  });

  const send = async (path: string, headers: Record<string, string> = {}, method = 'POST') => {
    const response = await fetch(`http://127.0.0.1:${app.port}/${path}`, { method, headers });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  const requests = (operation: string) =>
    app.nest.get(IdempotencyMeter, { strict: false }).read().operations.get(operation)!.requests;

  const countOf = (operation: string, reason: string): number =>
    (requests(operation).http as Partial<Record<string, number>>)[`unprotected_${reason}`] ?? 0;

  it.each([
    ['optional', 'no_key', 'notice'],
    ['ignored', 'no_caller', 'notice'],
    ['disabled', 'disabled', 'info'],
  ])('is an event and a number by its reason: %s [P30]', async (path, reason, severity) => {
    const before = countOf(path, reason);
    const headers = path === 'optional' ? {} : { 'idempotency-key': 'k' };
    for (const run of [1, 2]) expect(JSON.parse((await send(path, headers)).text)).toEqual({ run });
    const event = { type: 'unprotected', operation: path, transport: 'http', reason };
    expect(events).toEqual([event, event]);
    expect(events.map(severityOf)).toEqual([severity, severity]);
    expect(requests(path)).toEqual({
      http: { unprotected: 0, [`unprotected_${reason}`]: before + 2 },
    });
    expect(logger.own).toEqual([]);
  });

  it('is neither for a safe method', async () => {
    await send('safe', {}, 'GET');
    expect(runs).toBe(1);
    expect(events).toEqual([]);
  });

  it.each([
    ['required', 400, 'invalid_request'],
    ['optional', 201, 'unprotected'],
  ])(
    'that has its key under another name is reported, once: %s [P28]',
    async (path, status, type) => {
      const near = [
        ...['X-Idempotency-Key', 'Idempotency_Key', 'IdempotencyKey', 'Idempotent-Key'],
        ...['X-Idempotent-Key', 'Idempotency-Key-', 'Idempotancy-Key', 'Idempotency-Token'],
      ];
      for (const name of [...near, ...near]) {
        const response = await send(path, { [name]: 'the-secret-value' });
        expect(response.status).toBe(status);
      }
      const found = events.flatMap((event) => (event.type === 'key_misnamed' ? event.name : []));
      const names = near.map((name) => name.toLowerCase());
      expect(found).toEqual([...names, ...names]);
      expect(events.filter((event) => event.type === type)).toHaveLength(2 * near.length);
      expect(logger.own).toHaveLength(near.length);
      for (const name of names) {
        expect(logger.own).toContainEqual(
          expect.stringMatching(`^warn: key_misnamed in ${path}: .*"${name}"`),
        );
      }
      expect(JSON.stringify([events, logger.lines])).not.toContain('the-secret-value');
    },
  );

  it('that has no such name is not', async () => {
    await send('optional', { 'x-request-id': 'a', 'idempotent-replayed': 'b', 'x-api-key': 'c' });
    await send('own-name', { 'x-order-ref': 'a' });
    expect(events.map(({ type }) => type)).toEqual(['unprotected', 'unprotected']);
    await send('own-name', { 'x-order_reference': 'a' });
    await send('own-name', { 'idempotency-key': 'a' });
    const names = events.flatMap((event) => (event.type === 'key_misnamed' ? event.name : []));
    expect(names).toEqual(['x-order_reference', 'idempotency-key']);
  });

  it('with a key is refused where "key.syntax" returns nothing, and does not run', async () => {
    const error = jest.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
    const response = await send('unclear-syntax', { 'idempotency-key': 'k' });
    expect(response.status).toBe(500);
    expect(response.text).toContain('idempotency_options_invalid');
    expect(runs).toBe(0);
    expect(error.mock.calls[0]![0]).toMatch(
      /"key.syntax" must return true or false .*returned undefined/,
    );
    error.mockRestore();
  });

  it('is not what a replay of header fields is that are no strings: it has what Node sent', async () => {
    const first = await send('odd-fields', { 'idempotency-key': 'odd' });
    const again = await send('odd-fields', { 'idempotency-key': 'odd' });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    for (const name of ['x-bigint', 'x-date', 'x-nan']) {
      expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)]);
    }
    expect(first.headers.get('x-bigint')).toBe('5');
    expect(runs).toBe(1);
  });
});
