import { expect, it } from '@jest/globals';
import { expectProblem, type ProblemName } from '../../support/http/expect-problem.js';
import type { RawResponse } from '../../support/http/raw-response.js';
import type { Server } from '../harness/server.js';

type Answers = readonly (readonly [ProblemName, RawResponse])[];

/** Section H. */
export function errorDocuments(server: Server): void {
  /** All responses of the library that a caller can provoke, and those of an unavailable store. */
  async function provokeAll(): Promise<{ readonly key: string; readonly answers: Answers }> {
    const story = server.story('C83-C86');
    const pending = await story.hold('charge');
    const inProgress = await story.send('charge');
    await story.order('open-gate');
    await pending.response;
    await story.send('secret');
    const answers: [ProblemName, RawResponse][] = [
      ['in-progress', inProgress],
      ['key-missing', await story.send('no key')],
      ['key-invalid', await story.send('malformed key')],
      ['caller-unknown', await story.send('no caller')],
      ['key-reused', await story.send('another payload')],
      ['content-invalid', await story.send('not comparable')],
      ['response-not-kept', await story.send('secret')],
    ];
    await story.control('store/cut', 'POST');
    try {
      answers.push(['store-unavailable', await story.send('charge')]);
    } finally {
      await story.control('store/restore', 'POST');
    }
    return { key: story.key, answers };
  }

  it('C83 every response of the library is a problem document', async () => {
    const { answers } = await provokeAll();
    for (const [name, answer] of answers) {
      expectProblem(answer, name);
      expect(answer.header('content-language')).toBe('en');
      const { type, title, status, detail, ...extensions } = answer.json;
      expect(new URL(type).protocol).toMatch(/^https?:$/);
      expect(status).toBe(answer.status);
      expect(title).not.toBe('');
      expect(detail).not.toBe('');
      for (const extension of Object.keys(extensions)) {
        expect(extension).toMatch(/^[A-Za-z][A-Za-z0-9_]{2,}$/);
      }
    }
  });

  it('C84 each case has a type of its own, and type and title do not vary', async () => {
    const [one, other] = [await provokeAll(), await provokeAll()];
    const identities = ({ answers }: { answers: Answers }) =>
      answers.map(([, { json }]) => [json.type, json.title]);
    expect(identities(one)).toEqual(identities(other));
    const types = one.answers.map(([, { json }]) => json.type);
    expect(new Set(types).size).toBe(types.length);
  });

  it('C85 no error discloses the key, the caller or anything of either request', async () => {
    const { key, answers } = await provokeAll();
    for (const [, { text, lines }] of answers) {
      const everything = `${text}${JSON.stringify(lines)}`;
      for (const secret of [key, 'alice', 'what-was-sent', 'something-else', 'pair of eyes']) {
        expect(everything).not.toContain(secret);
      }
    }
  });

  it('C86 only "in progress" and 503 say when to retry', async () => {
    const { answers } = await provokeAll();
    const telling = answers.filter(([, answer]) => answer.header('retry-after') !== undefined);
    expect(telling.map(([name]) => name)).toEqual(['in-progress', 'store-unavailable']);
  });
}
