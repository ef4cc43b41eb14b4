import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { Server } from '../harness/server.js';

/** Section B. */
export function callers(server: Server): void {
  it('C22 two callers with one key and one payload get their own result each', async () => {
    const scenario = server.scenario('C22');
    const [alice, bob] = [await scenario.send('alice'), await scenario.send('bob')];
    expect([alice.json.execution, bob.json.execution]).toEqual([1, 2]);
    expectReplay(await scenario.send('alice'), alice);
    expectReplay(await scenario.send('bob'), bob);
  });

  it('C23 a caller learns nothing about the keys of another by sending another payload', async () => {
    const scenario = server.scenario('C23');
    await scenario.send('alice');
    expect(await scenario.send('bob')).toMatchObject({ status: 201, replayed: false });
  });

  it('C24 different callers and keys never share a record', async () => {
    for (const separator of [':', '|', '/', '-', '.', '_', '#', ',']) {
      const scenario = server.scenario('C24');
      await scenario.send('separator in the caller', { separator });
      const second = await scenario.send('separator in the key', { separator });
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    }
  });

  it('C25 without credentials it is 401, whatever the key', async () => {
    const scenario = server.scenario('C25');
    for (const name of ['no key', 'malformed key', 'good key']) {
      expect((await scenario.send(name)).status).toBe(401);
    }
    expect(await scenario.executions()).toBe(0);
  });

  it('C26 a 401 does not use the key up', async () => {
    const scenario = server.scenario('C26');
    expect((await scenario.send('without credentials')).status).toBe(401);
    const first = await scenario.send('with credentials');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
  });

  it('C27 a caller who is no longer allowed gets 403 and nothing of what is stored', async () => {
    const scenario = server.scenario('C27');
    const first = await scenario.send('charge');
    await scenario.order('forbid/alice');
    const rejected = await scenario.send('charge');
    expect(rejected).toMatchObject({ status: 403, replayed: false });
    expect(rejected.text).not.toContain('execution');
    await scenario.order('permit/alice');
    expectReplay(await scenario.send('charge'), first);
  });

  it('C28 a 403 does not use the key up', async () => {
    const scenario = server.scenario('C28');
    await scenario.order('forbid/alice');
    expect((await scenario.send('charge')).status).toBe(403);
    await scenario.order('permit/alice');
    const first = await scenario.send('charge');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
  });

  it('C29 a new session of the same principal replays', async () => {
    const scenario = server.scenario('C29');
    const first = await scenario.send('first session');
    expectReplay(await scenario.send('second session'), first);
  });

  it('C30 an anonymous caller with a key is rejected', async () => {
    const scenario = server.scenario('C30');
    expectProblem(await scenario.send('anonymous'), 'caller-unknown');
    expectProblem(await scenario.send('anonymous'), 'caller-unknown');
    expectProblem(await scenario.send('anonymous, without a key'), 'key-missing');
    expectProblem(await scenario.send('anonymous, malformed key'), 'key-invalid');
    expect(await scenario.executions()).toBe(0);
  });

  it("C30 with caller.anonymous: 'ignore' each anonymous request runs, and known callers are protected", async () => {
    const scenario = server.scenario('C30');
    for (const execution of [1, 2]) {
      const response = await scenario.send('ignored');
      expect(response).toMatchObject({ status: 201, replayed: false, json: { execution } });
    }
    const known = await scenario.send('ignored, but known');
    expectReplay(await scenario.send('ignored, but known'), known);
  });

  it("C30 with caller.anonymous: 'shared' all anonymous callers are one", async () => {
    const scenario = server.scenario('C30');
    const first = await scenario.send('shared');
    expectReplay(await scenario.send('shared'), first);
    expect((await scenario.send('shared, but known')).json).toMatchObject({ execution: 2 });
  });

  it('C31a tenant and user both enter the scope', async () => {
    const scenario = server.scenario('C31a');
    const names = ['alice of acme', 'alice of globex', 'bob of acme'];
    const firsts = [];
    for (const name of names) firsts.push(await scenario.send(name));
    expect(firsts.map(({ json }) => json.execution)).toEqual([1, 2, 3]);
    for (const [index, name] of names.entries()) {
      expectReplay(await scenario.send(name), firsts[index]!);
    }
  });
}
