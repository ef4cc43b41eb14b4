import { expect, it } from '@jest/globals';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Server } from '../harness/server.js';

type How = 'thrown' | 'returned' | 'raised';

/** These statuses, returned and thrown. */
const either = (...statuses: number[]) =>
  statuses.flatMap((status) =>
    (['thrown', 'returned'] as const).map((how) => [how, status] as const),
  );

/** Section F. */
export function failures(server: Server): void {
  /** The first execution fails; its answer is not kept, the retry executes and is kept. */
  async function expectReleased(clause: string, how: How, status: number) {
    const story = server.story(clause);
    const charge = { how, status: String(status) };
    expect(await story.send('charge', charge)).toMatchObject({ status, replayed: false });
    const second = await story.send('charge', charge);
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    expectReplay(await story.send('charge', charge), second);
  }

  it('C74 400, 402, 404, 409 and 422 of the handler are kept, returned or thrown', async () => {
    for (const [how, status] of either(400, 402, 404, 409, 422)) {
      const story = server.story('C74');
      const charge = { how, status: String(status) };
      const first = await story.send('charge', charge);
      expect(first).toMatchObject({ status, json: { execution: 1 } });
      expect(first.header('x-execution')).toBe('1');
      expectReplay(await story.send('charge', charge), first);
      expect(await story.executions()).toBe(1);
    }
  });

  it('C75 401, 403, 408, 412, 425 and 429 of the handler are not kept', async () => {
    for (const [how, status] of either(401, 403, 408, 412, 425, 429)) {
      await expectReleased('C75', how, status);
    }
  });

  it('C76 5xx is not kept, thrown, returned or by exception', async () => {
    for (const [how, status] of either(500, 502, 503)) await expectReleased('C76', how, status);
    await expectReleased('C76', 'raised', 500);
  });

  it('C76 with the option keep 5xx is kept', async () => {
    for (const [how, status] of [...either(500, 503), ['raised', 500] as const]) {
      const story = server.story('C76');
      const charge = { how, status: String(status) };
      const first = await story.send('charge, everything kept', charge);
      expect(first.status).toBe(status);
      expectReplay(await story.send('charge, everything kept', charge), first);
      expect(await story.executions()).toBe(1);
    }
  });

  it('C77 after a release ten retries at once execute once', async () => {
    const story = server.story('C77');
    expect((await story.send('charge')).status).toBe(500);
    const answers = await Promise.all(Array.from({ length: 10 }, () => story.send('charge')));
    expect(await story.executions()).toBe(2);
    const first = answers.find(({ status, replayed }) => status === 201 && !replayed)!;
    for (const answer of answers.filter((one) => one !== first)) {
      if (answer.replayed) expectReplay(answer, first);
      else expectProblem(answer, 'in-progress');
    }
  });

  it('C78 no failure leaves the key answering 409', async () => {
    const failures: [How, number][] = [
      ...either(400, 401, 429, 500, 503).map(([how, status]): [How, number] => [how, status]),
      ['raised', 500],
    ];
    for (const [how, status] of failures) {
      const story = server.story('C78');
      const charge = { how, status: String(status) };
      expect((await story.send('charge', charge)).status).toBe(status);
      expect((await story.send('charge', charge)).status).not.toBe(409);
    }
  });

  it('C79 what the layer refuses uses nothing up and changes nothing', async () => {
    const story = server.story('C79');
    expectProblem(await story.send('malformed'), 'key-invalid');
    expectProblem(await story.send('not comparable'), 'content-invalid');
    const first = await story.send('first');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectProblem(await story.send('another payload'), 'key-reused');
    expectProblem(await story.send('malformed'), 'key-invalid');
    expectReplay(await story.send('first'), first);
    expect(await story.executions()).toBe(1);
  });

  it('C79a a thrown error replays as the exception filter wrote it', async () => {
    const story = server.story('C79a');
    const first = await story.send('charge');
    expect(first).toMatchObject({ status: 409, json: { error: expect.any(Number) } });
    const again = await story.send('charge');
    expectReplay(again, first);
    expect(again.header('x-error')).toBe(String(first.json.error));
  });

  it('C88 validation that fails before the handler keeps nothing', async () => {
    const story = server.story('C88');
    expect((await story.send('invalid')).status).toBe(400);
    const corrected = await story.send('corrected');
    expect(corrected).toMatchObject({ status: 201, replayed: false, json: { amount: 1 } });
    expect(await story.executions()).toBe(1);
  });
}
