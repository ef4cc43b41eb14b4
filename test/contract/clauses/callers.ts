import { expect, it } from '@jest/globals';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Server } from '../harness/server.js';

/** Section B. */
export function callers(server: Server): void {
  it('C22 two callers with one key and one payload get their own result each', async () => {
    const story = server.story('C22');
    const [alice, bob] = [await story.send('alice'), await story.send('bob')];
    expect([alice.json.execution, bob.json.execution]).toEqual([1, 2]);
    expectReplay(await story.send('alice'), alice);
    expectReplay(await story.send('bob'), bob);
  });

  it('C23 a caller learns nothing about the keys of another by sending another payload', async () => {
    const story = server.story('C23');
    await story.send('alice');
    expect(await story.send('bob')).toMatchObject({ status: 201, replayed: false });
  });

  it('C24 different callers and keys never share a record', async () => {
    for (const separator of [':', '|', '/', '-', '.', '_', '#', ',']) {
      const story = server.story('C24');
      await story.send('separator in the caller', { separator });
      const second = await story.send('separator in the key', { separator });
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    }
  });

  it('C25 without credentials it is 401, whatever the key', async () => {
    const story = server.story('C25');
    for (const name of ['no key', 'malformed key', 'good key']) {
      expect((await story.send(name)).status).toBe(401);
    }
    expect(await story.executions()).toBe(0);
  });

  it('C26 a 401 does not use the key up', async () => {
    const story = server.story('C26');
    expect((await story.send('without credentials')).status).toBe(401);
    const first = await story.send('with credentials');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
  });

  it('C27 a caller who is no longer allowed gets 403 and nothing of what is stored', async () => {
    const story = server.story('C27');
    const first = await story.send('charge');
    await story.order('forbid/alice');
    const refused = await story.send('charge');
    expect(refused).toMatchObject({ status: 403, replayed: false });
    expect(refused.text).not.toContain('execution');
    await story.order('permit/alice');
    expectReplay(await story.send('charge'), first);
  });

  it('C28 a 403 does not use the key up', async () => {
    const story = server.story('C28');
    await story.order('forbid/alice');
    expect((await story.send('charge')).status).toBe(403);
    await story.order('permit/alice');
    const first = await story.send('charge');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
  });

  it('C29 a new session of the same principal replays', async () => {
    const story = server.story('C29');
    const first = await story.send('first session');
    expectReplay(await story.send('second session'), first);
  });

  it('C30 an anonymous caller with a key is rejected', async () => {
    const story = server.story('C30');
    expectProblem(await story.send('anonymous'), 'caller-unknown');
    expectProblem(await story.send('anonymous'), 'caller-unknown');
    expectProblem(await story.send('anonymous, without a key'), 'key-missing');
    expectProblem(await story.send('anonymous, malformed key'), 'key-invalid');
    expect(await story.executions()).toBe(0);
  });

  it("C30 with anonymous: 'ignore' each anonymous request runs, and known callers are protected", async () => {
    const story = server.story('C30');
    for (const execution of [1, 2]) {
      const answer = await story.send('ignored');
      expect(answer).toMatchObject({ status: 201, replayed: false, json: { execution } });
    }
    const known = await story.send('ignored, but known');
    expectReplay(await story.send('ignored, but known'), known);
  });

  it("C30 with anonymous: 'shared' all anonymous callers are one", async () => {
    const story = server.story('C30');
    const first = await story.send('shared');
    expectReplay(await story.send('shared'), first);
    expect((await story.send('shared, but known')).json).toMatchObject({ execution: 2 });
  });

  it('C31a tenant and user both enter the scope', async () => {
    const story = server.story('C31a');
    const names = ['alice of acme', 'alice of globex', 'bob of acme'];
    const firsts = [];
    for (const name of names) firsts.push(await story.send(name));
    expect(firsts.map(({ json }) => json.execution)).toEqual([1, 2, 3]);
    for (const [index, name] of names.entries()) {
      expectReplay(await story.send(name), firsts[index]!);
    }
  });
}
