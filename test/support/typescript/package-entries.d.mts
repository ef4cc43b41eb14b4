/** Paths below the root. */
export interface PackageEntry {
  readonly source: string;
  readonly built: string;
}

export function packageEntries(root: string): Map<string, PackageEntry>;
