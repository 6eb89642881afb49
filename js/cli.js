#!/usr/bin/env node
/* cli: the command line: `node js/cli.js …` in a checkout, `npx gemma-wasm …` where the package is installed. */
import './cli/main.js';
