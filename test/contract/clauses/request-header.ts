import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Server } from '../harness/server.js';

/** Section A. */
export function requestHeader(server: Server): void {
  /** Each of these requests is rejected, and nothing is executed: a bad key never counts as none. */
  async function expectRefused(clause: string, ...names: string[]) {
    const story = server.story(clause);
    for (const name of names) expectProblem(await story.send(name), 'key-invalid');
    expect(await story.executions()).toBe(0);
  }

  it('C01 the field name may be spelled in any case', async () => {
    const story = server.story('C01');
    const first = await story.send('first');
    expectReplay(await story.send('in capitals'), first);
    expect(await story.executions()).toBe(1);
  });

  it('C01 with the option key the field has another name', async () => {
    const story = server.story('C01');
    const first = await story.send('first under another name');
    expectReplay(await story.send('again under another name'), first);
    const name = 'under the standard name where another is read';
    expectProblem(await story.send(name), 'key-missing');
  });

  it('C02 escapes in a string name the unescaped key', async () => {
    const story = server.story('C02');
    const first = await story.send('escaped');
    expect(first.json.key).toBe(String.raw`${story.key}a"b\c d`);
    expectReplay(await story.send('escaped'), first);
  });

  it('C03 the bare and the quoted spelling are one key', async () => {
    const names = [randomUUID(), `tok_${randomUUID()}!#$&'*+-.^`, String(process.hrtime.bigint())];
    for (const name of names) {
      const bareFirst = server.story('C03');
      const bare = await bareFirst.send('bare', { name: `${name}1` });
      expectReplay(await bareFirst.send('quoted', { name: `${name}1` }), bare);
      const quotedFirst = server.story('C03');
      const quoted = await quotedFirst.send('quoted', { name: `${name}2` });
      expectReplay(await quotedFirst.send('bare', { name: `${name}2` }), quoted);
    }
  });

  it('C04 strict syntax accepts only a string', async () => {
    const story = server.story('C04');
    const first = await story.send('string');
    expectReplay(await story.send('string'), first);
    const others = ['token', 'UUID', 'integer', 'decimal', 'byte sequence', 'boolean'];
    await expectRefused('C04', ...others, 'single quotes');
  });

  it('C05 unknown parameters are ignored', async () => {
    const story = server.story('C05');
    const first = await story.send('with parameters');
    expect(first.json.key).toBe(story.key);
    expectReplay(await story.send('plain'), first);
  });

  it('C06 what is neither a string nor a bare key is rejected', async () => {
    const kinds = ['text after it', 'text right after it', 'another escape', 'two strings'];
    await expectRefused('C06', 'unterminated', ...kinds, 'empty parameter', 'quote in a bare key');
  });

  it('C07 two field lines are rejected, even with equal values', () =>
    expectRefused('C07', 'equal', 'different', 'equal strings', 'one is empty'));

  it('C08 two keys on one line are rejected', () =>
    expectRefused('C08', 'two strings', 'two bare keys', 'without a space'));

  it('C09 a string split over two lines is rejected', () => expectRefused('C09', 'split'));

  it('C10 an empty key is rejected', () => expectRefused('C10', 'no value', 'empty string'));

  it('C11 255 characters are a key, and none of them is cut off', async () => {
    const story = server.story('C11');
    const stem = story.key.padEnd(254, 'x');
    const first = await story.send('long key', { long: `${stem}a` });
    const second = await story.send('long key', { long: `${stem}b` });
    expect([first.json.key, second.json.key]).toEqual([`${stem}a`, `${stem}b`]);
    expectReplay(await story.send('long key', { long: `${stem}a` }), first);
    expect(await story.executions()).toBe(2);
  });

  it('C11 more characters are rejected', async () => {
    const story = server.story('C11');
    for (const length of [256, 1020]) {
      const long = story.key.padEnd(length, 'x');
      expectProblem(await story.send('long key', { long }), 'key-invalid');
      expectProblem(await story.send('long key, required or not', { long }), 'key-invalid');
    }
    expect(await story.executions()).toBe(0);
  });

  it('C11 with the option maxKeyLength the limit is another', async () => {
    const story = server.story('C11');
    const of = (length: number) => ({ long: story.key.padEnd(length, 'x') });
    expect((await story.send('key of at most 64', of(64))).status).toBe(201);
    expectProblem(await story.send('key of at most 64', of(65)), 'key-invalid');
  });

  it('C12 the limit counts decoded characters', async () => {
    const story = server.story('C12');
    const key = story.key.padEnd(255, '"');
    const escaped = (text: string) => ({ escaped: text.replaceAll('"', '\\"') });
    expect((await story.send('much escaped', escaped(key))).json.key).toBe(key);
    expectProblem(await story.send('much escaped', escaped(`${key}"`)), 'key-invalid');
  });

  it('C13 control characters never reach the handler', async () => {
    const story = server.story('C13');
    expectProblem(await story.send('tab', { tab: '\t' }), 'key-invalid');
    expectProblem(await story.send('tab in a bare key', { tab: '\t' }), 'key-invalid');
    for (const byte of [0x00, 0x01, 0x0b, 0x1f, 0x7f]) {
      expect((await story.send('control', { control: Buffer.of(byte) })).status).toBe(400);
    }
    expect(await story.executions()).toBe(0);
  });

  it('C14 a byte above 0x7E is rejected', async () => {
    const story = server.story('C14');
    for (const octets of [Buffer.of(0x80), Buffer.of(0xe9), Buffer.from('é'), Buffer.of(0xff)]) {
      expectProblem(await story.send('octets', { octets }), 'key-invalid');
      expectProblem(await story.send('octets in a bare key', { octets }), 'key-invalid');
    }
    expect(await story.executions()).toBe(0);
  });

  it('C15 upper and lower case are two keys', async () => {
    const story = server.story('C15');
    await story.send('upper');
    expect((await story.send('lower')).json).toMatchObject({ execution: 2 });
  });

  it('C16 inner spaces count', async () => {
    const story = server.story('C16');
    const names = ['plain', 'space before', 'space within', 'two spaces within', 'space after'];
    for (const [index, name] of names.entries()) {
      expect((await story.send(name)).json).toMatchObject({ execution: index + 1 });
    }
  });

  it('C16 spaces around the field value do not count', async () => {
    const story = server.story('C16');
    const first = await story.send('plain');
    expectReplay(await story.send('spaces around it', { space: ' ', tab: '\t' }), first);
  });

  it('C17 characters with a meaning elsewhere are a key like any other', async () => {
    const story = server.story('C17');
    const names = [
      ...['*', '{a}', ':', '::', '../', '../../etc', '__proto__', 'constructor', '%00', '%2e', '?'],
      ...['\\', '\\\\', '"', "'", '$1', ';', '=', '/', '|', '#', '<a>', 'null', 'undefined', '[a]'],
    ];
    const spelled = names.map((name) => ({ spelled: name.replaceAll(/["\\]/g, '\\$&') }));
    const firsts = [];
    for (const values of spelled) firsts.push(await story.send('odd', values));
    expect(firsts.map(({ json }) => json.key)).toEqual(names);
    for (const [index, values] of spelled.entries()) {
      expectReplay(await story.send('odd', values), firsts[index]!);
    }
    expect(await story.executions()).toBe(names.length);
  });

  it('C18 a route that requires a key rejects a request without one', async () => {
    const story = server.story('C18');
    expectProblem(await story.send('without a key'), 'key-missing');
    expect(await story.executions()).toBe(0);
  });

  it('C19 where the key is optional, a request without one runs each time', async () => {
    const story = server.story('C19');
    for (const execution of [1, 2]) {
      const answer = await story.send('without a key');
      expect(answer).toMatchObject({ status: 201, replayed: false, json: { execution } });
    }
    const first = await story.send('with a key');
    expectReplay(await story.send('with a key'), first);
  });

  it('C20 a route that is not decorated ignores the field', async () => {
    const story = server.story('C20');
    const names = ['well-formed', 'well-formed', 'malformed', 'empty', 'doubled'];
    for (const [index, name] of names.entries()) {
      const json = { execution: index + 1 };
      expect(await story.send(name)).toMatchObject({ status: 201, replayed: false, json });
    }
  });

  it('C21 GET and HEAD ignore the field and use nothing up', async () => {
    const story = server.story('C21');
    for (const name of ['GET', 'GET', 'GET, malformed', 'GET without a key', 'HEAD']) {
      expect(await story.send(name)).toMatchObject({ status: 200, replayed: false });
    }
    const first = await story.send('POST');
    expect(first.json).toMatchObject({ execution: 6 });
    expectReplay(await story.send('POST'), first);
  });
}
