#!/bin/sh
# Makes a checkout ready for the package index, which shows README.md and project.urls but has no files of ours:
# `sh requirements/release.sh URL TAG`, e.g. https://github.com/OWNER/alignatt_agent v0.1.0.
set -eu
export URL="${1%/}" TAG="$2"
perl -0777 -pi -e \
    's{(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)}{"$1$2($ENV{URL}/" . ($1 ? "raw" : "blob") . "/$ENV{TAG}/$3)"}ge' README.md
perl -0777 -pi -e 's{^(?=\[project\.scripts\])}{[project.urls]
Repository = "$ENV{URL}"
Documentation = "$ENV{URL}/blob/$ENV{TAG}/docs/tutorial.md"
Changelog = "$ENV{URL}/blob/$ENV{TAG}/CHANGELOG.md"
Issues = "$ENV{URL}/issues"

}m' pyproject.toml
