import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { GeneratedSources } from './generated-sources.js';
import { runCommand } from './run-command.js';

/** A project as `nest new` makes it. */
export class GeneratedProject {
  private constructor(readonly root: string) {}

  /** Made with the newest command line tool of Nest's version `major`; without git, and with nothing installed. */
  static async create(folder: string, major: number): Promise<GeneratedProject> {
    const name = `nest-${String(major)}`;
    const flags = ['--skip-install', '--skip-git', '--package-manager', 'npm'];
    await runCommand('npx', ['--yes', `@nestjs/cli@${String(major)}`, 'new', name, ...flags], {
      cwd: folder,
    });
    return new GeneratedProject(join(folder, name));
  }

  /** Adds `packages` to its dependencies, and installs what is missing. */
  async install(...packages: string[]): Promise<void> {
    await this.run('npm', ['install', '--loglevel', 'error', ...packages]);
  }

  async write(sources: GeneratedSources): Promise<void> {
    for (const [path, text] of Object.entries(sources)) {
      await writeFile(join(this.root, path), text);
    }
  }

  async read(paths: readonly string[]): Promise<GeneratedSources> {
    const texts = paths.map(async (path) => [path, await readFile(join(this.root, path), 'utf8')]);
    return Object.fromEntries(await Promise.all(texts)) as GeneratedSources;
  }

  /** @param bin - the folder of the Node that runs it, if not the one of this process. */
  run(
    program: string,
    args: readonly string[],
    bin?: string,
    env?: NodeJS.ProcessEnv,
  ): Promise<string> {
    return runCommand(program, args, { cwd: this.root, ...(bin && { bin }), ...(env && { env }) });
  }
}
