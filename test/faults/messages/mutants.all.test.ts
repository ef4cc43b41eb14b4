import { beforeAll, describe, expect, it } from '@jest/globals';
import { messagePlanOf } from '../../../lab/chaos/messages/arguments.js';
import { runMessagesOn } from '../../../lab/chaos/messages/run-messages.js';
import { useServer } from '../../support/servers/use-server.js';
import { MUTANTS } from './mutants.js';
import { startMessageServers } from './start-servers.js';

const servers = useServer(() => startMessageServers());

describe('the oracle objects to consumers whose library', () => {
  let objections: ReadonlyMap<string, readonly string[]>;

  beforeAll(async () => {
    const played = MUTANTS.map(async (mutant) => {
      const plan = messagePlanOf([
        ...['--messages', '40', '--deliveries', '160', '--consumers', '1', '--prefetch', '20'],
        ...['--kills', '0', '--closes', '0', '--lease-ms', '1000', '--effect-ms', '30'],
        ...['--seed', '1', ...mutant.args],
      ]);
      const result = await runMessagesOn(servers, plan, { mutant }).catch((error: unknown) => ({
        objections: [String(error)],
      }));
      return [mutant.mistake, result.objections] as const;
    });
    objections = new Map(await Promise.all(played));
  }, 180_000);

  it.each(MUTANTS)('$mistake', ({ mistake, objection }) => {
    expect(objections.get(mistake)).toContainEqual(expect.stringMatching(objection));
  });
});
