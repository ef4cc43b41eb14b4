import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { Server } from '../harness/server.js';

/** Section A. */
export function requestHeader(server: Server): void {
  /** Each of these requests is rejected, and nothing is executed: a bad key never counts as none. */
  async function expectRejected(clause: string, ...names: string[]) {
    const scenario = server.scenario(clause);
    for (const name of names) expectProblem(await scenario.send(name), 'key-invalid');
    expect(await scenario.executions()).toBe(0);
  }

  it('C01 the field name may be spelled in any case', async () => {
    const scenario = server.scenario('C01');
    const first = await scenario.send('first');
    expectReplay(await scenario.send('in capitals'), first);
    expect(await scenario.executions()).toBe(1);
  });

  it('C01 with the option key the field has another name', async () => {
    const scenario = server.scenario('C01');
    const first = await scenario.send('first under another name');
    expectReplay(await scenario.send('again under another name'), first);
    const name = 'under the standard name where another is read';
    expectProblem(await scenario.send(name), 'key-missing');
  });

  it('C02 escapes in a string name the unescaped key', async () => {
    const scenario = server.scenario('C02');
    const first = await scenario.send('escaped');
    expect(first.json.key).toBe(String.raw`${scenario.key}a"b\c d`);
    expectReplay(await scenario.send('escaped'), first);
  });

  it('C03 the bare and the quoted spelling are one key', async () => {
    const names = [randomUUID(), `tok_${randomUUID()}!#$&'*+-.^`, String(process.hrtime.bigint())];
    for (const name of names) {
      const bareFirst = server.scenario('C03');
      const bare = await bareFirst.send('bare', { name: `${name}1` });
      expectReplay(await bareFirst.send('quoted', { name: `${name}1` }), bare);
      const quotedFirst = server.scenario('C03');
      const quoted = await quotedFirst.send('quoted', { name: `${name}2` });
      expectReplay(await quotedFirst.send('bare', { name: `${name}2` }), quoted);
    }
  });

  it('C04 strict syntax accepts only a string', async () => {
    const scenario = server.scenario('C04');
    const first = await scenario.send('string');
    expectReplay(await scenario.send('string'), first);
    const others = ['token', 'UUID', 'integer', 'decimal', 'byte sequence', 'boolean'];
    await expectRejected('C04', ...others, 'single quotes');
  });

  it('C05 unknown parameters are ignored', async () => {
    const scenario = server.scenario('C05');
    const first = await scenario.send('with parameters');
    expect(first.json.key).toBe(scenario.key);
    expectReplay(await scenario.send('plain'), first);
  });

  it('C06 what is neither a string nor a bare key is rejected', async () => {
    const kinds = ['text after it', 'text right after it', 'another escape', 'two strings'];
    await expectRejected('C06', 'unterminated', ...kinds, 'empty parameter', 'quote in a bare key');
  });

  it('C07 two field lines are rejected, even with equal values', () =>
    expectRejected('C07', 'equal', 'different', 'equal strings', 'one is empty'));

  it('C08 two keys on one line are rejected', () =>
    expectRejected('C08', 'two strings', 'two bare keys', 'without a space'));

  it('C09 a string split over two lines is rejected', () => expectRejected('C09', 'split'));

  it('C10 an empty key is rejected', () => expectRejected('C10', 'no value', 'empty string'));

  it('C11 255 characters are a key, and none of them is cut off', async () => {
    const scenario = server.scenario('C11');
    const stem = scenario.key.padEnd(254, 'x');
    const first = await scenario.send('long key', { long: `${stem}a` });
    const second = await scenario.send('long key', { long: `${stem}b` });
    expect([first.json.key, second.json.key]).toEqual([`${stem}a`, `${stem}b`]);
    expectReplay(await scenario.send('long key', { long: `${stem}a` }), first);
    expect(await scenario.executions()).toBe(2);
  });

  it('C11 more characters are rejected', async () => {
    const scenario = server.scenario('C11');
    for (const length of [256, 1020]) {
      const long = scenario.key.padEnd(length, 'x');
      expectProblem(await scenario.send('long key', { long }), 'key-invalid');
      expectProblem(await scenario.send('long key, required or not', { long }), 'key-invalid');
    }
    expect(await scenario.executions()).toBe(0);
  });

  it('C11 with the option key.maxLength the limit is another', async () => {
    const scenario = server.scenario('C11');
    const of = (length: number) => ({ long: scenario.key.padEnd(length, 'x') });
    expect((await scenario.send('key of at most 64', of(64))).status).toBe(201);
    expectProblem(await scenario.send('key of at most 64', of(65)), 'key-invalid');
  });

  it('C12 the limit counts decoded characters', async () => {
    const scenario = server.scenario('C12');
    const key = scenario.key.padEnd(255, '"');
    const escaped = (text: string) => ({ escaped: text.replaceAll('"', '\\"') });
    expect((await scenario.send('much escaped', escaped(key))).json.key).toBe(key);
    expectProblem(await scenario.send('much escaped', escaped(`${key}"`)), 'key-invalid');
  });

  it('C13 control characters never reach the handler', async () => {
    const scenario = server.scenario('C13');
    expectProblem(await scenario.send('tab', { tab: '\t' }), 'key-invalid');
    expectProblem(await scenario.send('tab in a bare key', { tab: '\t' }), 'key-invalid');
    for (const byte of [0x00, 0x01, 0x0b, 0x1f, 0x7f]) {
      expect((await scenario.send('control', { control: Buffer.of(byte) })).status).toBe(400);
    }
    expect(await scenario.executions()).toBe(0);
  });

  it('C14 a byte above 0x7E is rejected', async () => {
    const scenario = server.scenario('C14');
    for (const octets of [Buffer.of(0x80), Buffer.of(0xe9), Buffer.from('é'), Buffer.of(0xff)]) {
      expectProblem(await scenario.send('octets', { octets }), 'key-invalid');
      expectProblem(await scenario.send('octets in a bare key', { octets }), 'key-invalid');
    }
    expect(await scenario.executions()).toBe(0);
  });

  it('C15 upper and lower case are two keys', async () => {
    const scenario = server.scenario('C15');
    await scenario.send('upper');
    expect((await scenario.send('lower')).json).toMatchObject({ execution: 2 });
  });

  it('C16 inner spaces count', async () => {
    const scenario = server.scenario('C16');
    const names = ['plain', 'space before', 'space within', 'two spaces within', 'space after'];
    for (const [index, name] of names.entries()) {
      expect((await scenario.send(name)).json).toMatchObject({ execution: index + 1 });
    }
  });

  it('C16 spaces around the field value do not count', async () => {
    const scenario = server.scenario('C16');
    const first = await scenario.send('plain');
    expectReplay(await scenario.send('spaces around it', { space: ' ', tab: '\t' }), first);
  });

  it('C17 characters with a meaning elsewhere are a key like any other', async () => {
    const scenario = server.scenario('C17');
    const names = [
      ...['*', '{a}', ':', '::', '../', '../../etc', '__proto__', 'constructor', '%00', '%2e', '?'],
      ...['\\', '\\\\', '"', "'", '$1', ';', '=', '/', '|', '#', '<a>', 'null', 'undefined', '[a]'],
    ];
    const spelled = names.map((name) => ({ spelled: name.replaceAll(/["\\]/g, '\\$&') }));
    const firsts = [];
    for (const values of spelled) firsts.push(await scenario.send('odd', values));
    expect(firsts.map(({ json }) => json.key)).toEqual(names);
    for (const [index, values] of spelled.entries()) {
      expectReplay(await scenario.send('odd', values), firsts[index]!);
    }
    expect(await scenario.executions()).toBe(names.length);
  });

  it('C18 a route that requires a key rejects a request without one', async () => {
    const scenario = server.scenario('C18');
    expectProblem(await scenario.send('without a key'), 'key-missing');
    expect(await scenario.executions()).toBe(0);
  });

  it('C19 where the key is optional, a request without one runs each time', async () => {
    const scenario = server.scenario('C19');
    for (const execution of [1, 2]) {
      const response = await scenario.send('without a key');
      expect(response).toMatchObject({ status: 201, replayed: false, json: { execution } });
    }
    const first = await scenario.send('with a key');
    expectReplay(await scenario.send('with a key'), first);
  });

  it('C20 a route that is not decorated ignores the field', async () => {
    const scenario = server.scenario('C20');
    const names = ['well-formed', 'well-formed', 'malformed', 'empty', 'doubled'];
    for (const [index, name] of names.entries()) {
      const json = { execution: index + 1 };
      expect(await scenario.send(name)).toMatchObject({ status: 201, replayed: false, json });
    }
  });

  it('C21 GET and HEAD ignore the field and use nothing up', async () => {
    const scenario = server.scenario('C21');
    for (const name of ['GET', 'GET', 'GET, malformed', 'GET without a key', 'HEAD']) {
      expect(await scenario.send(name)).toMatchObject({ status: 200, replayed: false });
    }
    const first = await scenario.send('POST');
    expect(first.json).toMatchObject({ execution: 6 });
    expectReplay(await scenario.send('POST'), first);
  });
}
