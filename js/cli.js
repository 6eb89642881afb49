#!/usr/bin/env node
/* cli: the command line: `node js/cli.js …` in a checkout, `npx gemma-wasm …` with the package. */
import './cli/main.js';
