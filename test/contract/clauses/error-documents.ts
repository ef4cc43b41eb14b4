import { expect, it } from '@jest/globals';
import { expectProblem, type ProblemName } from '../../support/http/expectations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import type { Server } from '../harness/server.js';

type Responses = readonly (readonly [ProblemName, RawResponse])[];

/** Section H. */
export function errorDocuments(server: Server): void {
  /** All responses of the library that a caller can provoke, and those of an unavailable store. */
  async function provokeAll(): Promise<{ readonly key: string; readonly responses: Responses }> {
    const scenario = server.scenario('C83-C86');
    const pending = await scenario.hold('charge');
    const inProgress = await scenario.send('charge');
    await scenario.order('open-gate');
    await pending.response;
    await scenario.send('secret');
    const responses: [ProblemName, RawResponse][] = [
      ['in-progress', inProgress],
      ['key-missing', await scenario.send('no key')],
      ['key-invalid', await scenario.send('malformed key')],
      ['caller-unknown', await scenario.send('no caller')],
      ['key-reused', await scenario.send('another payload')],
      ['content-invalid', await scenario.send('not comparable')],
      ['response-not-kept', await scenario.send('secret')],
    ];
    await scenario.control('store/cut', 'POST');
    try {
      responses.push(['store-unavailable', await scenario.send('charge')]);
    } finally {
      await scenario.control('store/restore', 'POST');
    }
    return { key: scenario.key, responses };
  }

  it('C83 every response of the library is a problem document', async () => {
    const { responses } = await provokeAll();
    for (const [name, response] of responses) {
      expectProblem(response, name);
      expect(response.header('content-language')).toBe('en');
      const { type, title, status, detail, ...extensions } = response.json;
      expect(new URL(type).protocol).toMatch(/^https?:$/);
      expect(status).toBe(response.status);
      expect(title).not.toBe('');
      expect(detail).not.toBe('');
      for (const extension of Object.keys(extensions)) {
        expect(extension).toMatch(/^[A-Za-z][A-Za-z0-9_]{2,}$/);
      }
    }
  });

  it('C84 each case has a type of its own, and type and title do not vary', async () => {
    const [one, other] = [await provokeAll(), await provokeAll()];
    const identities = ({ responses }: { responses: Responses }) =>
      responses.map(([, { json }]) => [json.type, json.title]);
    expect(identities(one)).toEqual(identities(other));
    const types = one.responses.map(([, { json }]) => json.type);
    expect(new Set(types).size).toBe(types.length);
  });

  it('C85 no error discloses the key, the caller or anything of either request', async () => {
    const { key, responses } = await provokeAll();
    for (const [, { text, lines }] of responses) {
      const everything = `${text}${JSON.stringify(lines)}`;
      for (const secret of [key, 'alice', 'what-was-sent', 'something-else', 'pair of eyes']) {
        expect(everything).not.toContain(secret);
      }
    }
  });

  it('C86 only "in progress" and 503 say when to retry', async () => {
    const { responses } = await provokeAll();
    const reporting = responses.filter(
      ([, response]) => response.header('retry-after') !== undefined,
    );
    expect(reporting.map(([name]) => name)).toEqual(['in-progress', 'store-unavailable']);
  });
}
