import { AsyncLocalStorage } from 'node:async_hooks';
import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';

const ENVIRONMENT = new URL('../support/jest/environment.mjs', import.meta.url).href;

const SCRIPT = `
  const { default: FileEnvironment } = await import(${JSON.stringify(ENVIRONMENT)});
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks');
  const projectConfig = { globals: {}, testEnvironmentOptions: {}, fakeTimers: {} };
  const environment = new FileEnvironment({ projectConfig, globalConfig: {} }, {});
  const storage = new AsyncLocalStorage();
  storage.enterWith('entered');
  const entered = storage.getStore();
  await environment.teardown();
  console.log(JSON.stringify([entered, storage.getStore() ?? null]));
`;

describe('the environment of a test file', () => {
  it('gives tests a tracked AsyncLocalStorage', () => {
    expect((Object.getPrototypeOf(AsyncLocalStorage) as { name: string }).name).toBe(
      'AsyncLocalStorage',
    );
  });

  it('ends each AsyncLocalStorage of the file with the file', () => {
    const args = ['--input-type=module', '--eval', SCRIPT];
    const printed = execFileSync(process.execPath, args, { cwd: projectRoot, encoding: 'utf8' });
    expect(JSON.parse(printed)).toEqual(['entered', null]);
  });
});
