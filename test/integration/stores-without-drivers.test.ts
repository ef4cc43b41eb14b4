import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { useServer } from '../support/servers/use-server.js';
import { CompiledStore } from './postgres/support/compiled-store.js';

const compiled = useServer(
  () => CompiledStore.compile(false),
  (it) => it.remove(),
);

/** The output of a process without installed packages. */
async function printed(entry: string, script: string): Promise<unknown> {
  const library = JSON.stringify(compiled.pathOf(`${entry}/index`));
  const text = `const library = await import(${library});
    const codeAndMessage = ({ code, message }) => ({ code, message });
    console.log(JSON.stringify(await (async () => { ${script} })()));`;
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    text,
  ]);
  return JSON.parse(stdout);
}

describe('Where the driver is not installed', () => {
  it('redisStore with a url stops the start, and names what to install', async () => {
    const script = `return library.redisStore({ url: 'redis://127.0.0.1:1' }).open().catch(codeAndMessage);`;
    expect(await printed('stores/redis', script)).toEqual({
      code: 'idempotency_options_invalid',
      message:
        'redisStore opens the connection with ioredis, which is not installed: npm install ioredis',
    });
  });

  it.each(['open', 'migrate'])(
    'postgresStore with a url names what to install at %s()',
    async (method) => {
      const script = `return library.postgresStore({ url: 'postgres://127.0.0.1:1/db' }).${method}().catch(codeAndMessage);`;
      expect(await printed('stores/postgres', script)).toEqual({
        code: 'idempotency_options_invalid',
        message:
          'postgresStore opens its connections with pg, which is not installed: npm install pg',
      });
    },
  );

  it('s3Blobs names what to install at open(), and fileBlobs needs nothing', async () => {
    const client = '{ config: {}, send: () => Promise.reject(new Error()) }';
    const script = `return library.s3Blobs({ client: ${client}, bucket: 'b' }).open().catch(codeAndMessage);`;
    expect(await printed('blobs/s3', script)).toEqual({
      code: 'idempotency_options_invalid',
      message:
        's3Blobs sends the commands of @aws-sdk/client-s3, which is not installed: npm install @aws-sdk/client-s3',
    });
    const file = `return library.fileBlobs({ directory: '/nowhere' }).id;`;
    expect(await printed('blobs/file', file)).toBe('file');
  });

  it('postgresStore names what to install when only its listener needs it', async () => {
    const script = `
      const executor = { name: 'fromPg', kind: 'driver', connect: (use) => use(new Error('down')) };
      const listenUrl = 'postgres://127.0.0.1:1/db';
      return [
        await library.postgresStore({ executor, listenUrl }).open().catch(codeAndMessage),
        (await library.postgresStore({ executor, push: false }).open()).map(({ code }) => code),
      ];`;
    const [listening, without] = (await printed('stores/postgres', script)) as [object, unknown];
    expect(listening).toMatchObject({ code: 'idempotency_options_invalid' });
    expect(without).toEqual(['postgres_unreachable']);
  });
});
