# What teachers and learners type (docs/how-to/add-a-lesson.md, docs/grading.md); the Makefile includes this. The tools
# build what they need with the settings given here.

# One submission, or a folder: LESSON=03 FILE=my.c [EXERCISE=bucket] [FORMAT=json|junit|gradescope|classroom]
# [OUT=file]. Less than full marks is no error of make's; scripts ask tools/grade.
grade: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/grade --lesson "$$LESSON" --exercise "$$EXERCISE" --format "$$FORMAT" \
	    --out "$$OUT" -- "$$FILE" || [ $$? = 1 ]

# What an exercise begins with, into FILE: LESSON=17 EXERCISE=hunt-dp FILE=my/dp.c
starter:
	@BUILD=$(B) tools/mine --starter --lesson "$$LESSON" --exercise "$$EXERCISE" -- "$$FILE"

# build/mine/trivium: the program with FILE in place of what an exercise replaces, or with a published bug
# (PATCH=tests/museum/NN-name.patch)
mine: deps
	@BUILD=$(B) tools/mine --lesson "$$LESSON" --exercise "$$EXERCISE" --patch "$$PATCH" -- "$$FILE"

# Are references accepted, starters and planted mistakes rejected? [LESSON="03 05"]
check-exercises: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/check-exercises $(LESSON)

# The tree without the answers: LESSON="03 05" or all, OVER="01 02" (solutions that may be read), OUT=dir
handout:
	@tools/handout --out "$$OUT" --over "$$OVER" -- $(LESSON)

# "Which claim fails?": LESSON=03 NAME=ann OUT=dir writes patches and a sheet for a student; FILE=which.txt grades it
which: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/which --lesson "$$LESSON" --name "$$NAME" $(if $(FILE),--grade) \
	    -- "$${FILE:-$$OUT}" || [ $$? = 1 ]

# Numbers of one's own: LESSON=04 NAME=ann OUT=my/worksheet.txt writes the questions; FILE=my/worksheet.txt grades them
worksheet: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/worksheet --lesson "$$LESSON" --name "$$NAME" $(if $(FILE),--grade) \
	    -- "$${FILE:-$$OUT}" || [ $$? = 1 ]

# Which submissions are nearly equal: DIR=folder [LESSON=03]
similar:
	@tools/similar --lessons "$$LESSON" -- "$$DIR"

# The zip for Gradescope: LESSON="03 05" or all, OUT=autograder.zip
autograder:
	@tools/autograder --out "$${OUT:-autograder.zip}" -- $(LESSON)

# Everybody's submissions, each in a sandbox (bubblewrap): DIR=folder [LESSON=03] [EXERCISE=bucket] [OUT=scores.csv]
# [JOBS=1] [DEADLINE="2026-12-01 18:00"] [TRUSTED=1] [REPORTS=folder [FORMAT=junit]]: a file for each student
grade-all: deps
	@$(if $(TRUSTED),true,tools/install-deps teach)
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/grade-all --lessons "$$LESSON" --exercise "$$EXERCISE" \
	    --out "$${OUT:-scores.csv}" $(if $(JOBS),--jobs $(JOBS)) $(if $(LIMIT),--limit $(LIMIT)) --deadline "$$DEADLINE" \
	    --reports "$$REPORTS" --format "$$FORMAT" $(if $(TRUSTED),--trusted) -- "$$DIR"

# From such tables to a class list: REQUIRED="00/arithmetic 01/gelu" TABLES="week1.csv week2.csv" [OUT=marks.csv]
# [DROP=1, the weakest that do not count]
marks:
	@tools/marks --required "$$REQUIRED" --out "$${OUT:-marks.csv}" $(if $(DROP),--drop $(DROP)) -- $(TABLES)

.PHONY: starter mine grade grade-all marks similar which worksheet handout autograder check-exercises
