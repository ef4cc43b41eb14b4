import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../support/project-root.js';

/** The files of a folder of the project with this ending, from the project's root. */
export function filesIn(folder: string, ending: string): string[] {
  const names = readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);
}
