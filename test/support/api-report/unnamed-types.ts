import ts from 'typescript';

/** An entry, and the declaration file of what it exports. */
export interface EntryFile {
  readonly name: string;
  readonly file: string;
}

/**
 * The interfaces and classes that public signatures name and no import can: an application that returns one could not
 * emit declarations (TS4058). Aliases are left out, as TypeScript writes what they stand for.
 *
 * A type can be imported from the entry whose signatures name it, or from one of `shared`.
 */
export function unnamedTypes(
  program: ts.Program,
  entries: readonly EntryFile[],
  shared: readonly string[],
): string[] {
  const checker = program.getTypeChecker();
  const exportsOf = new Map(
    entries.map(({ name, file }) => {
      const module = checker.getSymbolAtLocation(program.getSourceFile(file)!)!;
      return [name, checker.getExportsOfModule(module).map(aliased)];
    }),
  );
  const everywhere = shared.flatMap((name) => named(exportsOf.get(name)!));
  return entries.flatMap(({ name }) => {
    const own = exportsOf.get(name)!;
    const importable = new Set([...everywhere, ...named(own)]);
    const seen = new Set<ts.Symbol>();
    const missing = new Map<string, string>();
    for (const symbol of own) visit(symbol, symbol.name);
    return Array.from(missing, ([type, place]) => `${name}: ${type}, in ${place}`);

    function visit(symbol: ts.Symbol, place: string): void {
      if (seen.has(symbol)) return;
      seen.add(symbol);
      for (const declaration of symbol.declarations ?? []) {
        if (declaration.getSourceFile().fileName.includes('/node_modules/')) continue;
        if (isNominal(symbol) && !importable.has(symbol)) missing.set(symbol.name, place);
        walk(declaration, place);
      }
    }

    function walk(node: ts.Node, place: string): void {
      // What a class or an interface extends is named by the declaration itself, its members by those who use them.
      const reference = ts.isTypeReferenceNode(node)
        ? node.typeName
        : ts.isTypeQueryNode(node)
          ? node.exprName
          : ts.isImportTypeNode(node)
            ? node.qualifier
            : undefined;
      const target = reference && checker.getSymbolAtLocation(reference);
      if (target) visit(aliased(target), place);
      if (ts.isExpressionWithTypeArguments(node)) {
        const base = checker.getSymbolAtLocation(node.expression);
        for (const { members } of (base && aliased(base).declarations?.filter(isMembered)) ?? []) {
          for (const member of members) walk(member, place);
        }
      }
      const at = ts.isClassElement(node) || ts.isTypeElement(node) ? memberOf(node, place) : place;
      ts.forEachChild(node, (child) => {
        walk(child, at);
      });
    }
  });

  function aliased(symbol: ts.Symbol): ts.Symbol {
    return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  }

  /** Those, and the members of the namespaces among them. */
  function named(symbols: readonly ts.Symbol[]): ts.Symbol[] {
    return symbols.flatMap((symbol) =>
      symbol.flags & ts.SymbolFlags.Module
        ? [symbol, ...checker.getExportsOfModule(symbol).map(aliased)]
        : [symbol],
    );
  }
}

const isNominal = ({ flags }: ts.Symbol) =>
  (flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class | ts.SymbolFlags.Enum)) !== 0;

const isMembered = (node: ts.Node) =>
  ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node);

const memberOf = (node: ts.ClassElement | ts.TypeElement, place: string) =>
  node.name === undefined ? place : `${place.split('.')[0]!}.${node.name.getText()}`;
