import { describe, expect, it } from '@jest/globals';
import { idempotentFetch } from 'nestjs-idempotency/client';
import { REJECTIONS } from '../../support/internals/core.js';
import { ScriptedServer } from '../../support/http/wire/scripted-server.js';
import { useServer } from '../../support/servers/use-server.js';

const server = useServer(() => ScriptedServer.start());

describe("the server's codes", () => {
  it.each(Object.entries(REJECTIONS))(
    '%s suffices where an exception filter keeps nothing else',
    async (code, { status, retryable }) => {
      server.runSteps({
        status,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      });
      await expect(
        idempotentFetch(server.url, { method: 'POST' }, { maxTries: 1 }),
      ).rejects.toMatchObject({ code, retryable });
    },
  );
});
