import { stripVTControlCharacters } from 'node:util';
import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { dirname } from 'node:path';
import { useServer } from '../support/servers/use-server.js';
import { startRedis } from '../support/redis/redis-server.js';
import { useTarball } from './support/describe-consumers.js';
import { GeneratedProject } from './support/generated-project.js';
import { protectedApp } from './support/generated-sources.js';
import { expectOnceEach } from './support/started-application.js';

jest.setTimeout(600_000);

const tarball = useTarball({ declarations: true });

describe.each([
  { nest: 11, js: '' },
  { nest: 12, js: '.js' },
] as const)('nest add nestjs-idempotency, in a new project of Nest $nest', ({ nest, js }) => {
  const redis = useServer(startRedis);
  let project: GeneratedProject;
  let log: string;
  /** What it says, without the colours that the schematics print whatever NO_COLOR says. */
  const add = async (...flags: string[]) => {
    const args = ['nest', 'add', 'nestjs-idempotency', '--skip-install', ...flags];
    return stripVTControlCharacters(await project.run('npx', args));
  };

  beforeAll(async () => {
    project = await GeneratedProject.create(tarball.folder, nest);
    await project.install(tarball.packed.tarball);
    log = await add('--service', 'shop');
  });

  it('names what it did, and what is left to do', async () => {
    for (const line of [
      'CREATE src/idempotency.ts',
      'CREATE .env',
      'UPDATE src/app.module.ts',
      'UPDATE src/main.ts',
    ])
      expect(log).toContain(line);
    expect(log).toContain('ioredis was added to package.json');
    expect(log).not.toContain('left as it is');
    const { '.env': env } = await project.read(['.env']);
    expect(env).toBe('REDIS_URL=redis://127.0.0.1:6379\n');
  });

  it('starts, and replays a POST', async () => {
    const { 'src/app.module.ts': made, ...sources } = protectedApp(js);
    expect(made).toContain('IdempotencyModule');
    await project.write({ ...sources, '.env': `REDIS_URL=${redis.url}\n` });
    await project.install();
    await project.run('npm', ['run', 'lint']);
    await project.run('npm', ['run', 'build']);
    const bin = dirname(process.execPath);
    await expectOnceEach({ dir: project.root, main: 'dist/main.js', bin });
  });

  it('changes nothing where it was added', async () => {
    const before = await project.read(['src/app.module.ts', 'src/main.ts', 'package.json']);
    const again = await add('--store', 'memory').catch(String);
    expect(again).toContain('src/idempotency.ts is there already: nothing was changed.');
    expect(await project.read(Object.keys(before))).toEqual(before);
  });

  it.each([
    ['memory', 'memoryStore()'],
    ['sqlite', 'IDEMPOTENCY_FILE'],
    ['postgres', 'postgresStore({'],
    ['mysql', 'mysqlStore({'],
  ])('compiles with the store %s', async (store, text) => {
    await project.run('rm', ['src/idempotency.ts']);
    await add('--store', store);
    const { 'src/idempotency.ts': source } = await project.read(['src/idempotency.ts']);
    expect(source).toContain(text);
    expect(source).toContain(`service: 'nest-${String(nest)}'`);
    await project.run('npx', ['tsc', '--noEmit', '-p', 'tsconfig.json']);
  });
});
