import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import type { Server } from '../harness/server.js';
import { expectOneResult } from './concurrency.js';

type How = 'thrown' | 'returned' | 'raised' | 'rejected';
type Failure = readonly [how: How, status: number];

const OBSERVABLE = 'charge, as an Observable';
const NATIVE = 'charge, natively';

/** These statuses, returned and thrown. */
const either = (...statuses: number[]) =>
  statuses.flatMap((status): Failure[] => [
    ['thrown', status],
    ['returned', status],
  ]);

/** An unexpected error, and a string in place of one. */
const unforeseen: readonly Failure[] = [
  ['raised', 500],
  ['rejected', 500],
];

/** Section F. */
export function failures(server: Server): void {
  /** The first execution fails; its response is kept. */
  async function expectKept(clause: string, [how, status]: Failure, name = 'charge') {
    const scenario = server.scenario(clause);
    const values = { how, status: String(status) };
    const first = await scenario.send(name, values);
    expect(first).toMatchObject({ status, replayed: false });
    expectReplay(await scenario.send(name, values), first);
    expect(await scenario.executions()).toBe(1);
    return first;
  }

  /** The first execution fails; its response is not kept, the retry executes and is kept. */
  async function expectReleased(clause: string, [how, status]: Failure, name = 'charge') {
    const scenario = server.scenario(clause);
    const values = { how, status: String(status) };
    expect(await scenario.send(name, values)).toMatchObject({ status, replayed: false });
    // What a native handler sends does not wait for the release: the handler has not finished yet.
    const isRetried = ({ status }: RawResponse) => name !== NATIVE || status !== 409;
    const second = await scenario.sendUntil(isRetried, name, values);
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    expectReplay(await scenario.send(name, values), second);
  }

  it('C74 400, 402, 404, 409, 410 and 422 of the handler are kept, returned or thrown', async () => {
    for (const failure of either(400, 402, 404, 409, 410, 422)) {
      const first = await expectKept('C74', failure);
      expect(first.json).toEqual({ execution: 1 });
      expect(first.header('x-execution')).toBe('1');
    }
  });

  it('C74 so are those of an Observable and of a native handler', async () => {
    for (const failure of either(404, 409)) {
      await expectKept('C74', failure, OBSERVABLE);
      await expectKept('C74', failure, NATIVE);
    }
  });

  it('C75 401, 403, 408, 412, 425 and 429 of the handler are not kept', async () => {
    for (const failure of either(401, 403, 408, 412, 425, 429)) {
      await expectReleased('C75', failure);
    }
  });

  it('C76 5xx is not kept, thrown, returned or by exception', async () => {
    const failures = [...either(500, 501, 502, 503, 504), ...unforeseen];
    for (const failure of failures) await expectReleased('C76', failure);
  });

  it('C76 neither is that of an Observable or of a native handler', async () => {
    for (const failure of [...either(500, 503), ...either(429), ...unforeseen]) {
      await expectReleased('C76', failure, OBSERVABLE);
      await expectReleased('C76', failure, NATIVE);
    }
  });

  it('C76 with the option keep 5xx is kept', async () => {
    for (const failure of [...either(401, 429, 500, 503), ...unforeseen]) {
      await expectKept('C76', failure, 'charge, everything kept');
    }
  });

  it('C76 with the option keep no failure is kept', async () => {
    for (const failure of either(400, 404, 409, 500)) {
      await expectReleased('C76', failure, 'charge, failures released');
    }
  });

  it('C77 after a release ten retries at once execute once', async () => {
    const scenario = server.scenario('C77');
    expect((await scenario.send('charge')).status).toBe(500);
    const responses = await Promise.all(Array.from({ length: 10 }, () => scenario.send('charge')));
    expect(await scenario.executions()).toBe(2);
    expectOneResult(responses);
  });

  it('C78 no failure leaves the key responding with 409', async () => {
    const failures = [...either(400, 401, 429, 500, 503), ...unforeseen];
    for (const [how, status] of failures) {
      const scenario = server.scenario('C78');
      const charge = { how, status: String(status) };
      expect((await scenario.send('charge', charge)).status).toBe(status);
      expect((await scenario.send('charge', charge)).status).not.toBe(409);
    }
  });

  it('C79 a rejected request uses nothing up and changes nothing', async () => {
    const scenario = server.scenario('C79');
    expectProblem(await scenario.send('malformed'), 'key-invalid');
    expectProblem(await scenario.send('not comparable'), 'content-invalid');
    const first = await scenario.send('first');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectProblem(await scenario.send('another payload'), 'key-reused');
    expectProblem(await scenario.send('malformed'), 'key-invalid');
    expectReplay(await scenario.send('first'), first);
    expect(await scenario.executions()).toBe(1);
  });

  it('C79 after a release another payload is accepted', async () => {
    const scenario = server.scenario('C79');
    expect((await scenario.send('fails')).status).toBe(500);
    const second = await scenario.send('fails, another payload');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it('C79a a thrown error replays as the exception filter wrote it', async () => {
    const scenario = server.scenario('C79a');
    const first = await scenario.send('charge');
    expect(first).toMatchObject({ status: 409, json: { error: expect.any(Number) } });
    const again = await scenario.send('charge');
    expectReplay(again, first);
    expect(again.header('x-error')).toBe(String(first.json.error));
  });

  it('C88 validation that fails before the handler keeps nothing', async () => {
    const scenario = server.scenario('C88');
    expect((await scenario.send('invalid')).status).toBe(400);
    const corrected = await scenario.send('corrected');
    expect(corrected).toMatchObject({ status: 201, replayed: false, json: { amount: 1 } });
    expectReplay(await scenario.send('corrected'), corrected);
    expect(await scenario.executions()).toBe(1);
  });

  it('C88 neither does a pipe of a parameter', async () => {
    const scenario = server.scenario('C88');
    expect((await scenario.send('invalid number')).status).toBe(400);
    const json = { execution: 1, id: 7 };
    expect(await scenario.send('corrected number')).toMatchObject({ status: 201, json });
  });

  it('C88 validation inside the handler is its response, and kept', async () => {
    const scenario = server.scenario('C88');
    const first = await scenario.send('invalid to the handler');
    expect(first.status).toBe(400);
    expectReplay(await scenario.send('invalid to the handler'), first);
    expectProblem(await scenario.send('corrected to the handler'), 'key-reused');
    expect(await scenario.executions()).toBe(1);
  });
}
