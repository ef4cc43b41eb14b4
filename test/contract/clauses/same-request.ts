import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { Values } from '../harness/request-files.js';
import type { Server } from '../harness/server.js';

/** A request of the clause, or one with its values filled in. */
type Reported = string | readonly [name: string, values: Values];

/** Sections C, and C87b of I. */
export function sameRequest(server: Server): void {
  /** The others are the same request as the first, by the contract. */
  async function expectSame(clause: string, first: Reported, ...others: Reported[]) {
    const scenario = server.scenario(clause);
    const send = (reported: Reported) => scenario.send(...([reported].flat() as [string, Values?]));
    const response = await send(first);
    expect(response.status).toBeLessThan(300);
    for (const other of others) expectReplay(await send(other), response);
    expect(await scenario.executions()).toBe(1);
  }

  /** Each of the others is another request under the same key; the first one is unaffected. */
  async function expectReused(clause: string, first: Reported, ...others: Reported[]) {
    const scenario = server.scenario(clause);
    const send = (reported: Reported) => scenario.send(...([reported].flat() as [string, Values?]));
    const response = await send(first);
    expect(response.status).toBeLessThan(300);
    for (const other of others) expectProblem(await send(other), 'key-reused');
    expectReplay(await send(first), response);
    expect(await scenario.executions()).toBe(1);
  }

  it('C31 another JSON value is rejected, and the original still replays', () =>
    expectReused('C31', 'first', 'another amount'));

  it('C31 with fingerprint: false any payload replays', () =>
    expectSame('C31', 'uncompared', 'uncompared, another amount'));

  it('C32 the order of members, spacing and escapes do not count', () =>
    expectSame('C32', 'first', 'other order', 'other spacing', 'other escapes'));

  it("C32 with fingerprint: 'bytes' they do", () =>
    expectReused('C32', 'bytes', 'bytes in other order', 'bytes with a space'));

  it('C33 the order of an array counts', () => expectReused('C33', 'ascending', 'descending'));

  it('C34 null, absent, numbers, texts, booleans, {} and [] are all different', async () => {
    const values = [
      ...['{}', '{"a":null}', '{"a":1}', '{"a":"1"}', '{"a":true}', '{"a":"true"}', '{"a":""}'],
      ...['{"a":{}}', '{"a":[]}', '{"a":[null]}', '{"a":0}', '{"a":false}', '[]'],
    ];
    const [first, ...others] = values.map((value): Reported => ['value', { value }]);
    await expectReused('C34', first!, ...others);
    await expectReused('C34', ...(others as [Reported, ...Reported[]]));
  });

  it('C34 the nesting of members counts', () =>
    expectReused(
      'C34',
      ['value', { value: '{"a":1,"b":2}' }],
      ['value', { value: '{"a":{"b":2},"b":1}' }],
    ));

  it('C35 numbers count by their binary64 value', async () => {
    const number = (text: string): Reported => ['number', { number: text }];
    await expectSame('C35', number('100'), number('1e2'), number('100.0'));
    await expectSame('C35', number('0.5'), number('0.50'), number('5e-1'));
    await expectSame('C35', number('0'), number('-0'));
  });

  it('C35 numbers that are not finite and 1,100 levels are rejected', async () => {
    const scenario = server.scenario('C35');
    const nested = '['.repeat(1_100) + ']'.repeat(1_100);
    expectProblem(await scenario.send('number', { number: '1e400' }), 'content-invalid');
    expectProblem(await scenario.send('nested', { nested }), 'content-invalid');
    expect(await scenario.executions()).toBe(0);
  });

  it("C35 with fingerprint: 'bytes' integers above 2^53 are distinct", () => {
    const bytes = (number: string): Reported => ['bytes', { number }];
    return expectReused('C35', bytes('9007199254740993'), bytes('9007199254740992'));
  });

  it('C36 composed and decomposed characters are different', () =>
    expectReused(
      'C36',
      ['composed', { composed: 'é'.normalize('NFC') }],
      ['decomposed', { decomposed: 'é'.normalize('NFD') }],
    ));

  it('C37 80 kB that differ in the last byte are different', () => {
    const large = (end: string): Reported => ['large', { text: 'x'.repeat(80_000) + end }];
    return expectReused('C37', large('a'), large('b'));
  });

  it('C37 with the option fingerprint chosen parts are compared', async () => {
    await expectSame('C37', 'selected', 'selected, another note');
    await expectReused('C37', 'selected', 'selected, another amount');
    await expectSame('C37', 'but for the time', 'but for the time, later');
    await expectReused('C37', 'but for the time', 'but for the time, another amount');
    await expectSame('C37', 'computed', 'computed, same order');
    await expectReused('C37', 'computed', 'computed, another order');
  });

  it('C38 the query counts', async () => {
    const query = (text: string): Reported => ['query', { query: text }];
    await expectReused('C38', query('?a=1'), query('?a=2'), query(''), query('?a=1&b=2'));
    await expectReused('C38', query(''), query('?a=1'));
    await expectReused('C38', query('?a=1&a=2'), query('?a=2&a=1'), query('?a=1'));
    await expectReused('C38', query('?a=1&b=2'), query('?a=1%26b%3D2'));
    await expectReused('C38', query('?a=%FF'), query('?a=%FE'));
  });

  it('C39 the order of differently named query members does not count', () =>
    expectSame('C39', 'first', 'in another order'));

  it('C40 another path of the same handler is another request', () =>
    expectReused('C40', 'one', 'two'));

  it('C40 another handler is independent', async () => {
    const scenario = server.scenario('C40');
    await scenario.send('one');
    const other = await scenario.send('another handler');
    expect(other).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it('C41 PATCH and PUT of one path are independent', async () => {
    const scenario = server.scenario('C41');
    const [patched, put] = [await scenario.send('PATCH'), await scenario.send('PUT')];
    expect([patched.json, put.json]).toEqual([{ execution: 1 }, { execution: 2 }]);
  });

  it("C41 with key.uniqueFor: 'principal' they are two requests under one key", () =>
    expectReused('C41', 'own PATCH', 'own PUT'));

  it('C42 PATCH and PUT replay', async () => {
    await expectSame('C42', 'PATCH', 'PATCH');
    await expectSame('C42', 'PUT', 'PUT');
  });

  it('C43 the media type counts', () => expectReused('C43', 'JSON', 'text'));

  it('C43 its parameters and spelling do not count', () =>
    expectSame(
      'C43',
      'JSON',
      'JSON with a charset',
      'JSON with a quoted charset',
      'JSON in capitals',
    ));

  it('C44 other header fields do not count', () => expectSame('C44', 'first', 'other fields'));

  it('C44 with fingerprint.headers the named ones count', async () => {
    await expectSame('C44', 'versioned', 'versioned, other fields');
    const others = ['another version', 'another match', 'another amount'];
    await expectReused('C44', 'versioned', ...others.map((other) => `versioned, ${other}`));
  });

  it('C45 forms are compared by name: order counts among equal names', async () => {
    const form = (text: string): Reported => ['form', { form: text }];
    await expectSame('C45', form('a=1&b=x%20y&a=3'), form('b=x%20y&a=1&a=3'));
    await expectReused('C45', form('a=1&b=x%20y'), form('a=1&b=x%20z'));
    await expectReused('C45', form('a=1&a=3'), form('a=3&a=1'));
    await expectReused('C45', form('a=1'), form('a=1&a=1'), 'JSON');
    await expectReused('C45', form('a=1%26b%3D2'), form('a=1&b=2'));
  });

  it('C45 texts are compared', async () => {
    const text = (value: string): Reported => ['text', { text: value }];
    await expectSame('C45', text('one'), text('one'));
    await expectReused('C45', text('one'), text('One'));
  });

  it('C46 octets are compared byte for byte', async () => {
    const all = Buffer.from(Array.from({ length: 512 }, (_, index) => index % 256));
    const other = Buffer.from(all);
    other[300]! ^= 1;
    const [first, ...others] = [all, other, all.subarray(0, 511)].map((octets): Reported => [
      'octets',
      { octets },
    ]);
    await expectSame('C46', first!, first!);
    await expectReused('C46', first!, ...others);
  });

  it('C47 forms with files are compared by their parts, whatever the boundary', async () => {
    await expectSame('C47', 'first', 'another boundary');
    await expectReused('C47', 'first', 'another file', 'another field');
  });

  it('C48 no body twice is the same request', async () => {
    await expectSame('C48', 'without a body', 'without a body');
    await expectReused('C48', 'without a body', 'with a body');
  });

  it('C87b host, forwarded addresses and TLS are not part of the request', () =>
    expectSame('C87b', 'first', 'through proxies'));

  it('C87b the absolute form of a request is the same request', () =>
    expectSame('C87b', 'first', 'in absolute form'));

  it("C87b the parameters of a route's host are", async () => {
    await expectSame('C87b', 'of a tenant', 'of a tenant');
    await expectReused('C87b', 'of a tenant', 'of another tenant');
  });
}
