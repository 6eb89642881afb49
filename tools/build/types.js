/**
 * build/types: writes the package's types to dist/, one file for each entry. tsc writes a declaration file for each
 * module. This program joins an entry's exports and all types that they need, each under a single name and with the
 * JSDoc that editors show.
 *
 * It omits members that are private, protected or @internal. The build fails if an export needs a type of an internal
 * folder. If the sources are the same as in the last run, it copies that run's result.
 *
 *   node tools/build/types.js
 */
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import ts from 'typescript';
import { Trouble, at, cli, must } from '../support/proc.js';

/** @typedef {ts.ClassDeclaration | ts.FunctionDeclaration | ts.TypeAliasDeclaration | ts.VariableDeclaration
 *   | ts.InterfaceDeclaration} Declared */

const MADE = at('build', 'types');
/** Folder with the result of the last run. Its name contains a digest of the sources. */
const resultFor = (/** @type {string} */ digest) => at('build', 'types', `dist-${digest}`);
const ENTRIES = ['index', 'search', 'shared', 'isolate', 'openai', 'ai-sdk', 'prompt-api', 'mcp'];
const INNER = /^(rpc|platform)\//;

/** Declarations that `await using` needs, for versions and settings of TypeScript whose libraries lack them. */
const DISPOSABLE = `declare global {
    interface SymbolConstructor { readonly dispose: unique symbol; readonly asyncDispose: unique symbol; }
    interface Disposable { [Symbol.dispose](): void; }
    interface AsyncDisposable { [Symbol.asyncDispose](): PromiseLike<void>; }
}
`;

/** @param {ts.ClassElement} member */
function isPublic(member) {
  if (member.name && ts.isPrivateIdentifier(member.name)) return false;
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  if (ts.getCombinedModifierFlags(member) & hidden) return false;
  return !ts.getJSDocTags(member).some((tag) => tag.tagName.text === 'internal');
}

/** Returns a JSDoc comment without its tags, which repeat the types. @param {string} comment */
function words(comment) {
  const text = comment
    .replace(/^\/\*\*|\*\/$/g, '')
    .replace(/^\s*\* ?/gm, '')
    .split(/@[a-z]+\b/)[0]
    // Links in comments are relative to docs/, so only their text remains.
    .replace(/\s*\(\[[^\]]*\]\([^)]*\)\)|\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim();
  return text && `/** ${text.replace(/\s+/g, ' ')} */`;
}

/** Collects the declarations that an entry exports, and all types that they need. */
class RollUp {
  #checker;
  /** @type {Map<string, ts.Symbol>} */
  #taken = new Map();
  /** @type {{ declaration: Declared, exported: boolean }[]} */
  #found = [];
  /** Entry whose types this entry imports instead of repeating them. @type {RollUp | undefined} */
  #base;
  /** Types that are imported from #base, and whether this entry exports them. @type {Map<string, boolean>} */
  #imported = new Map();

  /** @param {ts.Program} program @param {ts.SourceFile} entry @param {RollUp} [base] */
  constructor(program, entry, base) {
    this.#base = base;
    this.#checker = program.getTypeChecker();
    const module = /** @type {ts.Symbol} */ (this.#checker.getSymbolAtLocation(entry));
    for (const symbol of this.#checker.getExportsOfModule(module)) this.#take(this.#real(symbol), true);
    for (let i = 0; i < this.#found.length; i++) this.#follow(this.#found[i].declaration);
  }

  /** @param {ts.Symbol} symbol */
  #real(symbol) {
    return symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  /** @param {ts.Symbol} symbol @param {boolean} exported */
  #take(symbol, exported) {
    const declaration = /** @type {Declared | undefined} */ (symbol.declarations?.find(isDeclared));
    const file = declaration && relative(MADE, declaration.getSourceFile().fileName);
    if (!declaration || !file || file.startsWith('..')) return;
    const known = this.#taken.get(symbol.name);
    if (known === symbol) return;
    if (known) throw new Trouble(`Two types are called ${symbol.name}. One of them is in ${file}.`);
    if (INNER.test(file.replaceAll(sep, '/'))) {
      throw new Trouble(
        `The public types use ${symbol.name} of ${file}, an internal folder. Mark members that use it @internal.`,
      );
    }
    this.#taken.set(symbol.name, symbol);
    if (this.#base?.exports(symbol)) this.#imported.set(symbol.name, exported);
    else this.#found.push({ declaration, exported: exported || ts.isTypeAliasDeclaration(declaration) });
  }

  /** @param {ts.Symbol} symbol */
  exports(symbol) {
    const { declarations } = symbol;
    return this.#found.some(({ declaration, exported }) => exported && declarations?.includes(declaration));
  }

  /** @param {ts.Node} node */
  #follow(node) {
    node.forEachChild((child) => {
      if (ts.isClassElement(child) && !isPublic(child)) return;
      const name = ts.isImportTypeNode(child) ? child.qualifier : ts.isIdentifier(child) ? child : undefined;
      const symbol = name && this.#checker.getSymbolAtLocation(name);
      if (symbol) this.#take(this.#real(symbol), false);
      this.#follow(child);
    });
  }

  /** Returns the declaration with the final names of its types, without non-public members.
   * @param {Declared} declaration */
  #cleaned(declaration) {
    const rename = (/** @type {ts.Identifier} */ node) => {
      const symbol = this.#checker.getSymbolAtLocation(node);
      const real = symbol && this.#real(symbol);
      const known = real && this.#taken.get(real.name) === real;
      return known && real.name !== node.text ? ts.factory.createIdentifier(real.name) : node;
    };
    /** @type {(context: ts.TransformationContext) => (node: Declared) => Declared} */
    const transformer = (context) => (root) => {
      /** @type {(node: ts.Node) => ts.Node | undefined} */
      const visit = (node) => {
        if (ts.isClassElement(node) && node.parent === root && !isPublic(node)) return undefined;
        if (ts.isPropertyDeclaration(node) && ts.isPrivateIdentifier(node.name)) return undefined;
        if (ts.isImportTypeNode(node) && node.qualifier) {
          return ts.factory.createTypeReferenceNode(/** @type {ts.Identifier} */ (node.qualifier), node.typeArguments);
        }
        return ts.isIdentifier(node) ? rename(node) : ts.visitEachChild(node, visit, context);
      };
      return /** @type {Declared} */ (ts.visitEachChild(root, visit, context));
    };
    return ts.transform(declaration, [transformer]).transformed[0];
  }

  /** @param {{ declaration: Declared, exported: boolean }} found */
  #text({ declaration, exported }) {
    const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
    const file = declaration.getSourceFile();
    const printer = ts.createPrinter({ removeComments: false });
    const code = printer
      .printNode(ts.EmitHint.Unspecified, this.#cleaned(declaration), file)
      .replace(/^(\s*\/\*\*[^]*?\*\/)+\s*/, '')
      .replace(/^(export )?(declare )?/, '')
      .replace(/\/\*\*[^]*?\*\/\s*/g, (comment) => words(comment.trim()) && `${words(comment.trim())}\n    `);
    const comments = ts
      .getJSDocCommentsAndTags(statement)
      .filter(ts.isJSDoc)
      .map((one) => one.getText(file));
    const comment = words(comments.findLast((text) => !/@typedef|@import/.test(text)) ?? '');
    const keyword = ts.isVariableDeclaration(declaration) ? 'const ' : '';
    const head = `${exported ? 'export ' : ''}${ts.isTypeAliasDeclaration(declaration) ? '' : 'declare '}${keyword}`;
    return `${comment && `${comment}\n`}${head}${code.replace(/;?\s*$/, '')}${/\}$/.test(code) ? '' : ';'}`;
  }

  /** Returns the entry's declaration file. @param {string} base   module of the entry whose types it imports */
  text(base) {
    const code = this.#found.map((one) => this.#text(one)).join('\n');
    const names = [...this.#imported.keys()];
    const again = names.filter((name) => this.#imported.get(name));
    const head = names.length ? `import { ${names.join(', ')} } from '${base}';\n` : DISPOSABLE;
    const exported = again.length ? `export { ${again.join(', ')} };\n` : '';
    // Typed arrays have no type parameter before TypeScript 5.7.
    return `${head}${exported}${code.replace(/\b(\w+Array)<ArrayBuffer(Like)?>/g, '$1')}\nexport {};\n`;
  }
}

/** @param {ts.Declaration} node */
function isDeclared(node) {
  return (
    ts.isClassDeclaration(node) ||
    ts.isFunctionDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isVariableDeclaration(node) ||
    ts.isInterfaceDeclaration(node)
  );
}

/** Returns a digest of the files that determine the types. */
function digestOfSources() {
  const hash = createHash('sha256');
  const modules = readdirSync(at('js'), { recursive: true }).map((name) => `js/${name}`);
  const sources = modules.filter((name) => name.endsWith('.js')).sort();
  const others = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.types.json', 'tools/build/types.js'];
  for (const name of [...sources, ...others]) hash.update(name).update(readFileSync(at(name)));
  return hash.digest('hex').slice(0, 16);
}

/** @param {string} result folder for the declaration files of the entries */
async function makeTypes(result) {
  rmSync(MADE, { recursive: true, force: true });
  await must('types', process.execPath, [at('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.types.json']);
  const files = ENTRIES.map((name) => at('build', 'types', `${name}.d.ts`));
  const { ES2022 } = ts.ScriptTarget;
  const { NodeNext } = ts.ModuleKind;
  const program = ts.createProgram(files, { target: ES2022, module: NodeNext, types: [] });
  const exported = readFileSync(at('package.json'), 'utf8');
  /** @type {Map<string, string>} */
  const texts = new Map();
  /** @type {RollUp | undefined} */
  let base;
  for (const [i, file] of files.entries()) {
    const entry = new RollUp(program, /** @type {ts.SourceFile} */ (program.getSourceFile(file)), base);
    texts.set(`${ENTRIES[i]}.d.ts`, entry.text('./index.js'));
    const forRequire = `${ENTRIES[i]}.d.cts`;
    if (exported.includes(forRequire)) texts.set(forRequire, entry.text('./index.cjs'));
    base ??= entry;
  }
  mkdirSync(result);
  for (const [name, text] of texts) writeFileSync(join(result, name), text);
}

await cli(async () => {
  const result = resultFor(digestOfSources());
  if (!existsSync(result)) await makeTypes(result);
  cpSync(result, at('dist'), { recursive: true });
});
