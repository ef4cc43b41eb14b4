/** Paths below the root: of another package of the workspace, below its folder there. */
export interface PackageEntry {
  readonly source: string;
  readonly built: string;
}

export function packageEntries(root: string): Map<string, PackageEntry>;
