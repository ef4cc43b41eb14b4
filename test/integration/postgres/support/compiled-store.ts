import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { transformFile } from '@swc/core';
import { projectRoot } from '../../../support/project-root.js';

/** The store compiled to JavaScript in its own folder, for processes that must start quickly. */
export class CompiledStore {
  private constructor(private readonly folder: string) {}

  /** @param isInstalled - with false, no packages can be found. */
  static async compile(isInstalled = true): Promise<CompiledStore> {
    const folder = await mkdtemp(join(tmpdir(), 'idempotency-compiled-'));
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
    const packages = join(folder, 'node_modules');
    if (isInstalled) await symlink(join(projectRoot, 'node_modules'), packages);
    for (const part of ['core', 'blobs', 'stores', 'transactions/shared', 'cli']) {
      await compileFolder(join(projectRoot, 'lib', part), join(folder, 'dist', part));
    }
    return new CompiledStore(folder);
  }

  /** Takes a path below `lib`, without the extension. */
  pathOf(file: string): string {
    return join(this.folder, 'dist', `${file}.js`);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true });
  }
}

async function compileFolder(from: string, to: string): Promise<void> {
  for (const name of await readdir(from, { recursive: true })) {
    if (!name.endsWith('.ts')) continue;
    const path = join(to, name.replace(/\.ts$/, '.js'));
    await mkdir(dirname(path), { recursive: true });
    const { code } = await transformFile(join(from, name), {
      swcrc: false,
      jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
      module: { type: 'es6' },
    });
    await writeFile(path, code);
  }
}
