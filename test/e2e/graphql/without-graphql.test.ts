import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { outsideEnvironment } from '../../support/processes/outside-environment.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

const fileOf = (name: string) => fileURLToPath(new URL(`support/${name}`, import.meta.url));

it('an application without GraphQL runs without its packages', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      ...typescriptNodeOptions,
      '--import',
      new URL('support/no-graphql.mjs', import.meta.url).href,
      fileOf('http-only.ts'),
    ],
    { env: outsideEnvironment() },
  );
  expect(JSON.parse(stdout)).toEqual({
    graphql: 'graphql is not installed',
    responses: [{ charge: 1 }, { charge: 1 }],
  });
});
